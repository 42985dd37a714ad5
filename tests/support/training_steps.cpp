#include "training_steps.h"

#include <tapehead/tapehead.h>

#include <utility>

namespace tapehead::tests {
namespace {

// f(x, bias) as it is, or as a checkpoint, in the scope of a module of that name. A checkpoint
// keeps f until the backward pass: it must hold what it needs.
Tensor run_biased_block(const StepOptions& options, const char* name,
                        const std::function<Tensor(const Tensor&, const Tensor&)>& f,
                        const Tensor& x, const Tensor& bias) {
  const auto block = [name, f](const std::vector<Tensor>& in) {
    const ModuleScope scope(name);
    return f(in[0], in.size() > 1 ? in[1] : Tensor());
  };
  std::vector<Tensor> inputs{x};
  if (bias.defined()) inputs.push_back(bias);
  return options.checkpointed ? nn::checkpoint(block, inputs) : block(inputs);
}

Tensor run_block(const StepOptions& options, const char* name,
                 const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  return run_biased_block(
      options, name, [f](const Tensor& in, const Tensor&) { return f(in); }, x, Tensor());
}

Tensor in_module(const char* name, const std::function<Tensor()>& f) {
  const ModuleScope scope(name);
  return f();
}

Tensor weighted_sum(const Tensor& y) {
  const Tensor weights = randn(y.shape(), y.dtype());
  return sum(y * weights);
}

template <class Module>
Graph train_step(Module& module, const std::function<Tensor()>& loss) {
  nn::AdamW optimizer(module, {.lr = 1e-3});
  return watch([&] {
    Tape tape;
    const Tensor value = loss();
    optimizer.step(tape.gradient(value, module.parameters()));
  });
}

// Gpt's own call, with a choice for its layers.
Tensor run_gpt(const nn::Gpt& gpt, const Tensor& tokens, const StepOptions& options) {
  Tensor x = gpt.token_embedding(tokens);
  const std::int64_t time = tokens.size(-1);
  Tensor positions, bias;
  if (gpt.position_embedding) {
    positions = (*gpt.position_embedding)(time, 0);
    x = std::move(x) + positions;
  }
  if (options.biased) bias = nn::alibi_bias(options.heads, time, time);
  const nn::Mask mask =
      nn::Mask::causal().prepared({tokens.size(0), gpt.options().heads, time, time});
  for (const nn::TransformerEncoderLayer& layer : gpt.layers) {
    const auto block = [&layer, mask](const Tensor& in, const Tensor& added) {
      return layer(in, mask, added);
    };
    x = run_biased_block(options, "", block, x, bias);
  }
  x = gpt.norm(x);
  return (*gpt.head)(x);
}

struct Residuals : nn::Module {
  explicit Residuals(const StepOptions& options)
      : first({.in_features = options.dim, .out_features = options.dim}),
        attn({.embed_dim = options.dim, .num_heads = options.heads, .dropout = options.dropout}),
        ff({.dim = options.dim, .hidden = 2 * options.dim + 1, .dropout = options.dropout}),
        last({.in_features = options.dim, .out_features = options.dim}) {}
  void visit(nn::Visitor& visitor) override {
    visitor("first", first);
    visitor("attn", attn);
    visitor("ff", ff);
    visitor("last", last);
  }

  nn::Linear first;
  nn::MultiHeadAttention attn;
  nn::FeedForward ff;
  nn::Linear last;
};

// The graph of one step of training.
Graph run_gpt_step() {
  Generator generator(7);
  nn::Gpt gpt({.vocab_size = 11, .context = 6, .layers = 2, .heads = 2, .dim = 8}, generator);
  nn::AdamW optimizer(gpt, {.lr = 1e-3});
  const std::vector<std::int64_t> tokens{1, 4, 2, 9, 0, 3, 7, 10, 5, 2, 8, 6, 1, 1, 3, 2, 5, 9};
  Ledger ledger;
  Tape tape;
  const Tensor logits = gpt(from_vector(tokens, {3, 6}));
  const Tensor targets = from_vector(tokens, {18});
  const Tensor loss = cross_entropy(reshape(logits, {18, 11}), targets);
  optimizer.step(tape.gradient(loss, gpt.parameters()));
  return ledger.graph();
}

}  // namespace

Graph watch(const std::function<void()>& step) {
  manual_seed(5);
  Ledger ledger;
  step();
  return ledger.graph();
}

Graph attention_step(const StepOptions& options) {
  const DryRun dry_run;
  nn::MultiHeadAttention attention({.embed_dim = options.dim,
                                    .num_heads = options.heads,
                                    .dropout = options.dropout,
                                    .path = options.path});
  return train_step(attention, [&] {
    const Tensor x = randn({options.batch, options.time, options.dim});
    return weighted_sum(run_block(
        options, "attn", [&](const Tensor& in) { return attention(in, nn::Mask::causal()); }, x));
  });
}

Graph encoder_step(const StepOptions& options) {
  const DryRun dry_run;
  nn::TransformerEncoderLayer layer({.d_model = options.dim,
                                     .nhead = options.heads,
                                     .dim_feedforward = 2 * options.dim + 1,
                                     .dropout = options.dropout,
                                     .norm_first = options.norm_first,
                                     .path = options.path});
  return train_step(layer, [&] {
    const Tensor x = randn({options.batch, options.time, options.dim});
    Tensor bias;
    if (options.biased) bias = randn({options.heads, options.time, options.time});
    const auto block = [&layer](const Tensor& in, const Tensor& added) {
      return layer(in, nn::Mask::causal(), added);
    };
    return weighted_sum(run_biased_block(options, "layer", block, x, bias));
  });
}

Graph residual_step(const StepOptions& options) {
  const DryRun dry_run;
  Residuals net(options);
  return train_step(net, [&] {
    const auto attend = [&net](const Tensor& x) { return net.attn(x, nn::Mask::causal()); };
    const auto feed = [&net](const Tensor& x) { return net.ff(x); };
    Tensor x = net.first(randn({options.batch, options.time, options.dim}));
    Tensor branch = run_block(options, "part.attn", attend, x);
    x = x + std::move(branch);
    branch = run_block(options, "part.ff", feed, x);
    x = x + std::move(branch);
    return weighted_sum(net.last(x));
  });
}

Graph activation_step(const Activation& f, std::int64_t depth, bool checkpointed) {
  const DryRun dry_run;
  nn::Linear first({.in_features = 6, .out_features = 40});
  nn::Linear last({.in_features = 40, .out_features = 8});
  std::vector<Tensor> leaves = first.parameters();
  for (const Tensor& leaf : last.parameters()) leaves.push_back(leaf);
  return watch([&] {
    Tape tape;
    Tensor x = first(randn({64, 6}));
    for (std::int64_t i = 0; i < depth; ++i) {
      const auto block = [&f, name = "act." + std::to_string(i)](Tensor in) {
        const ModuleScope scope(name);
        return f(std::move(in));
      };
      x = checkpointed ? nn::checkpoint([block](const auto& in) { return block(in[0]); }, {x})
                       : block(std::move(x));
    }
    x = last(x);
    (void)tape.gradient(sum(x), leaves);
  });
}

Graph overwritten_step(Overwritten what, bool checkpointed) {
  const DryRun dry_run;
  nn::Linear first({.in_features = 6, .out_features = 40});
  const auto run = [checkpointed](const auto& act, const Tensor& x) {
    return run_block({.checkpointed = checkpointed}, "act", act, x);
  };
  return watch([&] {
    Tape tape;
    Tensor x = first(randn({64, 6})), y;
    if (what == Overwritten::view) {
      y = run([](const Tensor& in) { return reshape(in, {40, 64}); }, std::exchange(x, {}));
      y = mul(std::move(y), 3.0);
    } else {
      y = run([](const Tensor& in) { return mul(in, 2.0); }, x);
      const bool is_reached = what == Overwritten::operand;
      x = mul(std::move(x), 3.0);
      y = is_reached ? x + y : exp(x);
    }
    (void)tape.gradient(sum(square(y)), first.parameters());
  });
}

Graph borders_step() {
  const Tensor weight = parameter(zeros({16, 8})), bias = parameter(zeros({1, 8}));
  return watch([&] {
    Tape tape;
    Tensor x = square(in_module("kept", [&] { return sigmoid(weight); }));
    {
      const Tensor read = in_module("read", [&] { return tanh(x); });
      x = exp(x) + read;
    }
    x = in_module("views", [&] { return transpose(reshape(x, {2, 8, 8}), 0, 1); });
    x = exp(reshape(x, {16, 8}));
    const Tensor one = ones({16, 8});
    x = exp(in_module("difference", [&] { return one - (x - one); }));
    x = exp(in_module("shift", [&] { return x - one; }));
    x = exp(in_module("bias", [&] { return exp(x) + bias; }));
    x = x + in_module("branch", [&] { return mul(x, 2.0) + x; });
    x = exp(in_module("fork", [&] { return x + exp(x); }));
    x = x + in_module("row", [&] { return sum(x, {0}, true); });
    const Tensor often = in_module("often", [&] { return tanh(x); });
    const Tensor first = exp(often);
    x = (x + often) * first;
    in_module("unreached", [&] { return tanh(x); });
    Tensor other;
    const Tensor result = in_module("two", [&] {
      other = exp(x);
      return tanh(x);
    });
    x = result * other;
    (void)tape.gradient(in_module("last", [&] { return sum(square(x)); }), {weight, bias});
  });
}

Graph gpt_step(const StepOptions& options) {
  const DryRun dry_run;
  nn::Gpt gpt({.vocab_size = 11,
               .context = options.time,
               .layers = options.layers,
               .heads = options.heads,
               .dim = options.dim,
               .dropout = options.dropout,
               .positions = options.biased ? nn::GptPositions::alibi : nn::GptPositions::learned,
               .path = options.path});
  gpt.name_parameters();
  const std::int64_t rows = options.batch * options.time;
  return train_step(gpt, [&] {
    const Tensor tokens = zeros({options.batch, options.time}, DType::i64);
    const Tensor logits = run_gpt(gpt, tokens, options);
    const Tensor target = zeros({rows}, DType::i64);
    return cross_entropy(reshape(logits, {rows, 11}), target);
  });
}

const Graph& real_gpt_step() {
  static const Graph graph = run_gpt_step();
  return graph;
}

Graph biased_step(const nn::Mask& mask, bool with_bias, nn::AttentionPath path) {
  nn::MultiHeadAttention attention({.embed_dim = 12, .num_heads = 4, .path = path});
  const Tensor bias = with_bias ? parameter(zeros({4, 8, 8})) : Tensor();
  return watch([&] {
    const ModuleScope scope("attn");
    const Tensor x = zeros({32, 8, 12}), memory = zeros({32, 8, 12});
    Tape tape;
    const Tensor y = attention(x, memory, memory, mask, bias);
    std::vector<Tensor> leaves = attention.parameters();
    if (with_bias) leaves.push_back(bias);
    (void)tape.gradient(sum(y * y), leaves);
  });
}

}  // namespace tapehead::tests
