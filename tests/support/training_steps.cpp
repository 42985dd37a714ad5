#include "training_steps.h"

#include <tapehead/tapehead.h>

#include <utility>

namespace tapehead::tests {
namespace {

// f(x) as it is, or as a checkpoint, in the scope of a module of that name. A checkpoint keeps f
// until the backward pass: it must hold what it needs.
Tensor run_block(const StepOptions& options, const char* name,
                 const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  const auto block = [name, f](const std::vector<Tensor>& in) {
    const ModuleScope scope(name);
    return f(in[0]);
  };
  return options.checkpointed ? nn::checkpoint(block, {x}) : block({x});
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
  const Tensor positions = (*gpt.position_embedding)(tokens.size(-1), 0);
  x = std::move(x) + positions;
  const nn::Mask mask = nn::Mask::causal().prepared(
      {tokens.size(0), gpt.options().heads, tokens.size(-1), tokens.size(-1)});
  for (const nn::TransformerEncoderLayer& layer : gpt.layers)
    x = run_block(
        options, "", [&layer, mask](const Tensor& in) { return layer(in, mask); }, x);
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
    return weighted_sum(run_block(
        options, "layer", [&](const Tensor& in) { return layer(in, nn::Mask::causal()); }, x));
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
               .path = options.path});
  gpt.name_parameters();
  const std::int64_t rows = options.batch * options.time;
  return train_step(gpt, [&] {
    const Tensor tokens = zeros({options.batch, options.time}, DType::i64);
    const Tensor logits = run_gpt(gpt, tokens, options);
    return cross_entropy(reshape(logits, {rows, 11}), zeros({rows}, DType::i64));
  });
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
