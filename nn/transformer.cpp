#include <tapehead/nn/transformer.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>

#include <array>

namespace tapehead::nn {

// ---- Activation --------------------------------------------------------------------------------

namespace {

constexpr std::array activation_names = {
    std::pair{Activation::gelu, "gelu"},
    std::pair{Activation::gelu_tanh, "gelu_tanh"},
    std::pair{Activation::relu, "relu"},
};

Tensor activate(Activation activation, Tensor x) {
  switch (activation) {
    case Activation::gelu: return gelu(std::move(x));
    case Activation::gelu_tanh: return gelu(std::move(x), Approximate::tanh);
    case Activation::relu: break;
  }
  return relu(std::move(x));
}

}  // namespace

Activation parse_activation(std::string_view text) {
  for (const auto& [activation, name] : activation_names)
    if (text == name) return activation;
  throw ValueError("activation",
                   "\"" + std::string(text) + "\" must be \"gelu\", \"gelu_tanh\" or \"relu\"");
}

std::string_view to_string(Activation activation) {
  return activation_names[static_cast<std::size_t>(activation)].second;
}

// ---- FeedForward -------------------------------------------------------------------------------

FeedForward::FeedForward(FeedForwardOptions options, Generator& generator)
    : linear1({.in_features = options.dim,
               .out_features = options.hidden,
               .bias = options.bias,
               .dtype = options.dtype},
              generator),
      dropout(options.dropout),
      linear2({.in_features = options.hidden,
               .out_features = options.dim,
               .bias = options.bias,
               .dtype = options.dtype},
              generator),
      options_(options) {}

Tensor FeedForward::operator()(const Tensor& x) const {
  const ModuleScope scope = enter();
  Tensor hidden = linear1(x);
  hidden = activate(options_.activation, std::move(hidden));
  hidden = dropout(std::move(hidden));
  return linear2(hidden);
}

void FeedForward::visit(Visitor& visitor) {
  visitor("linear1", linear1);
  visitor("dropout", dropout);
  visitor("linear2", linear2);
}

std::string FeedForward::summary() const {
  return "FeedForward(" + std::to_string(options_.dim) + " -> " + std::to_string(options_.hidden) +
         " -> " + std::to_string(options_.dim) + ", " +
         std::string(to_string(options_.activation)) + ")";
}

// ---- TransformerBlock --------------------------------------------------------------------------

namespace {

MultiHeadAttentionOptions attention_options(const TransformerBlockOptions& options) {
  return {.embed_dim = options.dim,
          .num_heads = options.heads,
          .dropout = options.dropout,
          .bias = options.bias,
          .init = options.init,
          .dtype = options.dtype};
}

FeedForwardOptions feed_forward_options(const TransformerBlockOptions& options) {
  return {.dim = options.dim,
          .hidden = options.hidden == 0 ? 4 * options.dim : options.hidden,
          .activation = options.activation,
          .dropout = options.dropout,
          .bias = options.bias,
          .dtype = options.dtype};
}

LayerNormOptions norm_options(const TransformerBlockOptions& options) {
  return {.normalized_shape = {options.dim},
          .eps = options.eps,
          .bias = options.bias,
          .dtype = options.dtype};
}

}  // namespace

TransformerBlock::TransformerBlock(TransformerBlockOptions options, Generator& generator)
    : self_attn(attention_options(options), generator),
      feed_forward(feed_forward_options(options), generator),
      norm1(norm_options(options)),
      norm2(norm_options(options)),
      dropout1(options.dropout),
      dropout2(options.dropout),
      options_(options) {}

Tensor TransformerBlock::operator()(const Tensor& x, const Mask& mask) const {
  const ModuleScope scope = enter();
  Tensor branch = self_attn(norm1(x), mask);
  return add_branches(x, std::move(branch));
}

Tensor TransformerBlock::decode(const Tensor& x, KeyValueCache& cache, const Mask& mask) const {
  const ModuleScope scope = enter();
  Tensor branch = self_attn.decode(norm1(x), cache, mask);
  return add_branches(x, std::move(branch));
}

// Each branch is added in place to what it returned, which nobody else holds.
Tensor TransformerBlock::add_branches(const Tensor& x, Tensor attention) const {
  Tensor branch = dropout1(std::move(attention));
  const Tensor attended = x + std::move(branch);
  branch = feed_forward(norm2(attended));
  branch = dropout2(std::move(branch));
  return attended + std::move(branch);
}

void TransformerBlock::visit(Visitor& visitor) {
  visitor("self_attn", self_attn);
  // No level of its own: linear1 and linear2 stand beside self_attn, as PyTorch names them.
  visitor("", feed_forward);
  visitor("norm1", norm1);
  visitor("norm2", norm2);
  visitor("dropout1", dropout1);
  visitor("dropout2", dropout2);
}

std::string TransformerBlock::summary() const { return "TransformerBlock (pre-norm)"; }

}  // namespace tapehead::nn
