// Whole training steps, and a model that writes token by token.
#include <tapehead/nn/gpt.h>
#include <tapehead/nn/layers.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/search.h>
#include <tapehead/ops/views.h>

#include <memory>

#include "agreement.h"
#include "scenario.h"

namespace tapehead::program::bench {
namespace {

// A model and what it learns from, in one dtype.
template <class Model>
struct Task {
  std::shared_ptr<Model> model;
  std::function<Tensor()> loss;

  std::vector<Tensor> results() const { return forward_backward(loss, model->parameters()); }
};

// An iteration: the loss, its gradients, a step of AdamW.
template <class Model>
Subject training(const Task<Model>& task, const Task<Model>& reference, const Work& work) {
  copy_values(*task.model, *reference.model);
  const auto optimizer = std::make_shared<nn::AdamW>(*task.model);
  const auto step = [task, optimizer] {
    Gradients gradients;
    {
      Tape tape;
      gradients = tape.gradient(task.loss(), task.model->parameters());
    }
    optimizer->step(gradients);
  };
  return {.iterate = step, .work = work, .saved_bytes = saved_bytes(task.loss), .error = [=] {
            return largest_error(task.results(), reference.results());
          }};
}

// ---- a perceptron ------------------------------------------------------------------------------

struct Perceptron : nn::Module {
  Perceptron(DType dtype, Generator& generator)
      : hidden({.in_features = 784, .out_features = 256, .dtype = dtype}, generator),
        output({.in_features = 256, .out_features = 10, .dtype = dtype}, generator) {}
  void visit(nn::Visitor& visitor) override {
    visitor("hidden", hidden);
    visitor("output", output);
  }

  nn::Linear hidden, output;
};

Subject mlp_step() {
  Generator generator(1);
  const Tensor images = randn({64, 784}, DType::f32, generator);
  const Tensor targets = randint(0, 10, {64}, generator);
  const auto task = [&](DType dtype) {
    const auto model = std::make_shared<Perceptron>(dtype, generator);
    return Task<Perceptron>{model, [model, targets, x = to(images, dtype)] {
                              return cross_entropy(model->output(relu(model->hidden(x))), targets);
                            }};
  };
  const Task<Perceptron> small = task(DType::f32);
  return training(small, task(DType::f64), {product_flops(small.loss), "flops"});
}

// ---- a language model --------------------------------------------------------------------------

constexpr std::int64_t vocabulary = 65, context = 256, batch = 8;

nn::GptOptions gpt_options(nn::AttentionPath path, DType dtype) {
  return {.vocab_size = vocabulary,
          .context = context,
          .layers = 4,
          .heads = 8,
          .dim = 256,
          .path = path,
          .dtype = dtype};
}

Subject gpt_step(nn::AttentionPath path) {
  Generator generator(1);
  const Tensor tokens = randint(0, vocabulary, {batch, context}, generator);
  const Tensor targets = randint(0, vocabulary, {batch * context}, generator);
  const auto task = [&](const nn::GptOptions& options) {
    const auto model = std::make_shared<nn::Gpt>(options, generator);
    return Task<nn::Gpt>{
        model, [=] {
          const Tensor logits = (*model)(tokens);
          return cross_entropy(reshape(logits, {batch * context, vocabulary}), targets);
        }};
  };
  return training(task(gpt_options(path, DType::f32)),
                  task(gpt_options(nn::AttentionPath::composed, DType::f64)),
                  {static_cast<double>(batch * context), "tokens"});
}

// ---- decoding ----------------------------------------------------------------------------------

// The likeliest next token each time, from token 0 on; `logits` of each step where asked for.
Tensor decode(const nn::Gpt& model, std::vector<Tensor>* logits = nullptr) {
  nn::GptCache cache;
  std::vector<Tensor> tokens{zeros({1}, DType::i64)};
  while (static_cast<std::int64_t>(tokens.size()) <= context) {
    const Tensor next = model.decode(tokens.back(), cache);
    tokens.push_back(argmax(next, -1));
    if (logits) logits->push_back(next);
  }
  tokens.pop_back();
  return cat(tokens, 0);
}

double decoding_error(const nn::Gpt& model) {
  nn::Gpt reference(gpt_options(nn::AttentionPath::composed, DType::f64));
  copy_values(model, reference);
  reference.eval();
  std::vector<Tensor> steps;
  const Tensor tokens = decode(model, &steps);
  return largest_error({cat(steps, 0)}, {reference(tokens)});
}

Subject decoding() {
  Generator generator(1);
  const auto model =
      std::make_shared<nn::Gpt>(gpt_options(nn::AttentionPath::composed, DType::f32), generator);
  model->eval();
  return {.iterate = [model] { decode(*model); },
          .work = {static_cast<double>(context), "tokens"},
          .saved_bytes = 0,
          .error = [model] { return decoding_error(*model); }};
}

}  // namespace

std::vector<Scenario> training_scenarios() {
  return {
      {"mlp_step", "784-256-10 perceptron, batch 64, cross entropy, AdamW", mlp_step},
      {"gpt_step", "Gpt of 4 layers, dim 256, 8 heads, batch 8, time 256, composed, AdamW",
       [] { return gpt_step(nn::AttentionPath::composed); }},
      {"gpt_step_fused", "the same with fused attention",
       [] { return gpt_step(nn::AttentionPath::fused); }},
      {"decode", "256 tokens of that Gpt, one by one, each the likeliest", decoding},
  };
}

}  // namespace tapehead::program::bench
