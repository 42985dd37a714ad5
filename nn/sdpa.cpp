#include <tapehead/nn/check.h>
#include <tapehead/nn/sdpa.h>
#include <tapehead/ops/views.h>

#include <algorithm>

namespace tapehead::nn {

namespace {

constexpr const char* op = "scaled_dot_product_attention";

// attention() groups heads unasked. Here, without the option, 4 and 2 at dim -3 are two batches
// that do not fit.
void check_not_grouped(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const auto& [name, x] : {std::pair("k", &k), std::pair("v", &v)})
    if (q.rank() >= 3 && x->rank() >= 3 && q.size(-3) != x->size(-3) && q.size(-3) != 1 &&
        x->size(-3) != 1)
      throw ShapeError(op, "q " + describe(q) + " and " + name + " " + describe(*x) +
                               ": dim -3 must broadcast; enable_gqa lets the heads of k and v be "
                               "fewer than those of q");
}

void check_arguments(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& attn_mask,
                     const ScaledDotProductAttentionOptions& options) {
  for (const auto& [name, x] : {std::pair("q", &q), std::pair("k", &k), std::pair("v", &v)})
    check_defined(op, name, *x);
  check_probability(op, "dropout_p", options.dropout_p);
  if (!options.enable_gqa) check_not_grouped(q, k, v);
  if (!attn_mask.defined()) return;
  if (options.is_causal)
    throw ValueError(op,
                     "attn_mask " + describe(attn_mask) + " and is_causal: give one of the two");
  if (attn_mask.dtype() != DType::boolean) check_same_dtype(op, attn_mask, q, "attn_mask", "q");
}

// Mask::keep takes a mask of more than two dims only with the scores' rank. PyTorch's rule is to
// broadcast from the right, so dims of size 1 are put in front.
Mask mask_of(const Tensor& keep, int scores_rank) {
  Tensor spread = keep;
  while (spread.rank() > 2 && spread.rank() < scores_rank) spread = unsqueeze(spread, 0);
  return Mask::keep(spread);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& attn_mask,
                                    const ScaledDotProductAttentionOptions& options) {
  check_arguments(q, k, v, attn_mask, options);
  AttentionOptions all{.scale = options.scale, .dropout = options.dropout_p, .path = options.path};
  if (options.is_causal) all.mask = Mask::causal(Align::top_left);
  if (attn_mask.defined() && attn_mask.dtype() == DType::boolean)
    all.mask = mask_of(attn_mask, std::max(q.rank(), k.rank()));
  else all.bias = attn_mask;
  return attention(q, k, v, all);
}

}  // namespace tapehead::nn
