// A small Gpt in training, for tests of what may come between its steps.
#pragma once

#include <tapehead/tapehead.h>

#include <cstdint>
#include <vector>

namespace tapehead::tests {

/// Every step is a function of the numbers and of how many steps were made, dropout included.
class Training {
 public:
  /// What a step changes: losses, parameters, the optimizer's state.
  using Numbers = std::vector<std::vector<double>>;

  static nn::GptOptions small_model() {
    return {.vocab_size = 7, .context = 5, .layers = 1, .heads = 2, .dim = 8, .dropout = 0.1};
  }

  explicit Training(const nn::GptOptions& options, std::uint64_t seed = 1)
      : seed_(seed),
        generator_(seed),
        model_(options, generator_),
        optimizer_(nn::decay_groups(model_), {.lr = 0.01}),
        tokens_(randint(0, options.vocab_size, {4, options.context + 1}, generator_)) {}

  void step() {
    // An error leaves the generator where it had come to: a step begins at a place of its own.
    default_generator().set_state({seed_, std::uint64_t{losses_.size()} << 32});
    Tape tape;
    const std::int64_t time = tokens_.size(1) - 1;
    const Tensor logits = model_(narrow(tokens_, 1, 0, time));
    const Tensor loss = cross_entropy(reshape(logits, {-1, logits.size(-1)}),
                                      reshape(narrow(tokens_, 1, 1, time), {-1}));
    const double value = loss.item();
    losses_.reserve(losses_.size() + 1);
    Gradients gradients = tape.gradient(loss, model_.parameters());
    nn::clip_grad_norm(gradients, 1);
    optimizer_.step(gradients);
    losses_.push_back(value);
  }

  Numbers numbers() const {
    Numbers all{losses_};
    for (const Tensor& parameter : model_.parameters()) all.push_back(parameter.to_vector());
    for (const auto& [name, tensor] : optimizer_.state())
      all.push_back(tensor.dtype() == DType::i64
                        ? std::vector{static_cast<double>(tensor.item<std::int64_t>())}
                        : tensor.to_vector());
    return all;
  }

  const nn::Gpt& model() const { return model_; }

 private:
  std::uint64_t seed_;
  Generator generator_;
  nn::Gpt model_;
  nn::AdamW optimizer_;
  Tensor tokens_;
  std::vector<double> losses_;
};

}  // namespace tapehead::tests
