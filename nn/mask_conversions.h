// Masks of other libraries, each by the name of where it comes from. They are tensors whose meaning
// the type does not tell; these functions do, and give a Mask, and a bias for what is added.
//
//   torch.nn.functional.scaled_dot_product_attention   bool: true takes part      Mask::keep
//   torch.nn.MultiheadAttention, attn_mask             bool: true is hidden       here
//   torch.nn.MultiheadAttention, key_padding_mask      bool: true is padding      here
//   Hugging Face, attention_mask                       1 is real, 0 is padding    here
//   any of PyTorch's, floating                         added to the scores        the bias
#pragma once

#include <tapehead/nn/mask.h>

namespace tapehead::nn {

/// What stands between scores and softmax: a mask, and what is added (undefined when nothing is).
struct MaskAndBias {
  Mask mask = {};    ///< what is hidden
  Tensor bias = {};  ///< what is added to the scores
};

/// The two masks of torch.nn.MultiheadAttention and of torch.nn.TransformerEncoderLayer (there
/// src_mask and src_key_padding_mask), either of which may be undefined, for scores
/// (N, num_heads, L, S).
///   attn_mask          (L, S), or (N * num_heads, L, S) with entry n * num_heads + h.
///                      bool: TRUE IS HIDDEN. Floating: added; it may want a gradient.
///   key_padding_mask   (N, S), or (S) without a batch. bool: TRUE IS PADDING. Floating: added.
/// ShapeError: another rank, or a first dim that num_heads does not divide; sizes are compared in
/// use. DTypeError: neither bool nor floating. ValueError: num_heads < 1.
MaskAndBias from_torch_multihead_masks(const Tensor& attn_mask, const Tensor& key_padding_mask,
                                       std::int64_t num_heads);

/// Hugging Face's attention_mask: 1 (any number but 0, or true) for a real key, 0 for padding;
/// (N, S) or (S). ShapeError: another rank.
Mask from_hugging_face_mask(const Tensor& attention_mask);

}  // namespace tapehead::nn
