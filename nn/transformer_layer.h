// What the layers of transformer encoders and decoders have in common: their options, and the
// options of their parts.
#pragma once

#include <tapehead/nn/feed_forward.h>
#include <tapehead/nn/multi_head_attention.h>

namespace tapehead::nn {

/// What keeps its inputs only and is computed again in the backward pass (nn/checkpoint.h).
enum class Checkpointed {
  none,
  attention,  ///< each attention, with its projections
  block,      ///< the whole layer
};

/// Names and defaults are PyTorch's, but for the last group. Layers are always batch first.
struct TransformerLayerOptions {
  std::int64_t d_model = 0;             ///< features of a token
  std::int64_t nhead = 0;               ///< they divide d_model
  std::int64_t dim_feedforward = 2048;  ///< width of the feed-forward part
  double dropout = 0.1;  ///< of weights, activations and each branch, in training mode
  Activation activation = Activation::relu;  ///< of the feed-forward part
  double layer_norm_eps = 1e-5;              ///< of the norms
  bool norm_first = false;  ///< whether a branch's input is normed, or the sum after the branch
  bool bias = true;         ///< whether maps and norms have one

  std::optional<std::int64_t> num_kv_heads = {};  ///< of all attention; nhead when not given
  std::optional<RotaryOptions> rotary = {};       ///< positions, of self-attention only
  ProjectionInit init = ProjectionInit::xavier_uniform;  ///< of all attention
  AttentionPath path = AttentionPath::composed;          ///< of all attention
  /// Unless none, the layer must stay where it is until the backward pass.
  Checkpointed checkpoint = Checkpointed::none;
  DType dtype = DType::f32;  ///< of parameters and results
};

/// Of the part self_attn.
MultiHeadAttentionOptions self_attention_options(const TransformerLayerOptions& options);
/// The same without rotary positions: the keys stand in another sequence.
MultiHeadAttentionOptions cross_attention_options(const TransformerLayerOptions& options);
/// Of the part feed_forward.
FeedForwardOptions feed_forward_options(const TransformerLayerOptions& options);
/// Of every norm.
LayerNormOptions layer_norm_options(const TransformerLayerOptions& options);

/// "TransformerEncoderLayer (pre-norm)".
std::string summary_of(std::string_view kind, const TransformerLayerOptions& options);

}  // namespace tapehead::nn
