#include <tapehead/nn/transformer_layer.h>

namespace tapehead::nn {

MultiHeadAttentionOptions self_attention_options(const TransformerLayerOptions& options) {
  MultiHeadAttentionOptions attention = cross_attention_options(options);
  attention.rotary = options.rotary;
  return attention;
}

MultiHeadAttentionOptions cross_attention_options(const TransformerLayerOptions& options) {
  return {.embed_dim = options.d_model,
          .num_heads = options.nhead,
          .dropout = options.dropout,
          .bias = options.bias,
          .num_kv_heads = options.num_kv_heads,
          .init = options.init,
          .path = options.path,
          .checkpoint = options.checkpoint == Checkpointed::attention,
          .dtype = options.dtype};
}

FeedForwardOptions feed_forward_options(const TransformerLayerOptions& options) {
  return {.dim = options.d_model,
          .hidden = options.dim_feedforward,
          .activation = options.activation,
          .dropout = options.dropout,
          .bias = options.bias,
          .dtype = options.dtype};
}

LayerNormOptions layer_norm_options(const TransformerLayerOptions& options) {
  return {.normalized_shape = {options.d_model},
          .eps = options.layer_norm_eps,
          .bias = options.bias,
          .dtype = options.dtype};
}

std::string summary_of(std::string_view kind, const TransformerLayerOptions& options) {
  return std::string(kind) + (options.norm_first ? " (pre-norm)" : " (post-norm)");
}

}  // namespace tapehead::nn
