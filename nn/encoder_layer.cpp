#include <tapehead/nn/encoder_layer.h>
#include <tapehead/ops/binary.h>

namespace tapehead::nn {

namespace {

MultiHeadAttentionOptions attention_options(const TransformerEncoderLayerOptions& options) {
  return {.embed_dim = options.d_model,
          .num_heads = options.nhead,
          .dropout = options.dropout,
          .bias = options.bias,
          .init = ProjectionInit::xavier_uniform,
          .path = options.path,
          .dtype = options.dtype};
}

FeedForwardOptions feed_forward_options(const TransformerEncoderLayerOptions& options) {
  return {.dim = options.d_model,
          .hidden = options.dim_feedforward,
          .activation = options.activation,
          .dropout = options.dropout,
          .bias = options.bias,
          .dtype = options.dtype};
}

LayerNormOptions norm_options(const TransformerEncoderLayerOptions& options) {
  return {.normalized_shape = {options.d_model},
          .eps = options.layer_norm_eps,
          .bias = options.bias,
          .dtype = options.dtype};
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(TransformerEncoderLayerOptions options,
                                                 Generator& generator)
    : self_attn(attention_options(options), generator),
      feed_forward(feed_forward_options(options), generator),
      norm1(norm_options(options)),
      norm2(norm_options(options)),
      dropout1(options.dropout),
      dropout2(options.dropout),
      options_(options) {}

Tensor TransformerEncoderLayer::attend(const Tensor& x, const Mask& mask,
                                       const Tensor& bias) const {
  return dropout1(self_attn(x, x, x, mask, bias));
}

Tensor TransformerEncoderLayer::feed(const Tensor& x) const { return dropout2(feed_forward(x)); }

// Each branch is added in place to what it returned, which nobody else holds.
Tensor TransformerEncoderLayer::operator()(const Tensor& src, const Mask& mask,
                                           const Tensor& bias) const {
  const ModuleScope scope = enter();
  if (options_.norm_first) {
    Tensor branch = attend(norm1(src), mask, bias);
    const Tensor attended = src + std::move(branch);
    branch = feed(norm2(attended));
    return attended + std::move(branch);
  }
  Tensor branch = attend(src, mask, bias);
  const Tensor attended = norm1(src + std::move(branch));
  branch = feed(attended);
  return norm2(attended + std::move(branch));
}

void TransformerEncoderLayer::visit(Visitor& visitor) {
  visitor("self_attn", self_attn);
  // No level of its own: linear1 and linear2 stand beside self_attn, as PyTorch names them.
  visitor("", feed_forward);
  visitor("norm1", norm1);
  visitor("norm2", norm2);
  visitor("dropout1", dropout1);
  visitor("dropout2", dropout2);
}

std::string TransformerEncoderLayer::summary() const {
  return std::string("TransformerEncoderLayer (") + (options_.norm_first ? "pre" : "post") +
         "-norm)";
}

}  // namespace tapehead::nn
