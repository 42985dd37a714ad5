// scaled_dot_product_attention: attention under PyTorch's name, with PyTorch's reading of a mask.
#pragma once

#include <tapehead/nn/attention.h>

#include <optional>

namespace tapehead::nn {

/// Of scaled_dot_product_attention, under PyTorch's names.
struct ScaledDotProductAttentionOptions {
  double dropout_p = 0;    ///< of the weights, whenever it is not 0: pass 0 in evaluation mode
  bool is_causal = false;  ///< query i sees keys 0..i, from the top left whatever L and S are
  std::optional<double> scale = {};  ///< of the scores; 1 / sqrt(E) when not given
  bool enable_gqa = false;  ///< k and v may have fewer heads (dim -3) than q, as for attention()
  AttentionPath path = AttentionPath::composed;  ///< which operations compute it
};

/// torch.nn.functional.scaled_dot_product_attention: q (..., L, E), k (..., S, E), v (..., S, Ev)
/// -> (..., L, Ev); leading dims broadcast.
///
/// attn_mask broadcasts to (..., L, S). bool: true where the key TAKES PART, as Mask::keep and
/// unlike torch.nn.MultiheadAttention. Floating: added to the scores, so that 0 and 1 do not hide
/// and show; it may hold -infinity and want a gradient. As in PyTorch >= 2.5 a query that sees no
/// key gives 0, and no gradient flows through it.
///
/// saves what attention() does. ShapeError: as attention(); a mask that does not broadcast; k or v
/// with fewer heads without enable_gqa. DTypeError: a mask neither bool nor of q's dtype.
/// ValueError: is_causal together with a mask; dropout_p outside [0, 1].
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& attn_mask = {},
                                    const ScaledDotProductAttentionOptions& options = {});

}  // namespace tapehead::nn
