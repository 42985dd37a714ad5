#include <tapehead/core/error.h>
#include <tapehead/nn/check.h>
#include <tapehead/nn/mask_conversions.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/views.h>

namespace tapehead::nn {

namespace {

constexpr const char* torch_masks = "from_torch_multihead_masks";

// Whether it is added: floating, and not bool.
bool is_added(const char* name, const Tensor& mask) {
  if (mask.dtype() == DType::boolean) return false;
  check_floating(torch_masks, name, mask);
  return true;
}

// (L, S) as it is; (N * heads, L, S) as (N, heads, L, S).
Tensor with_heads(const Tensor& attn_mask, std::int64_t heads) {
  if (attn_mask.rank() == 2) return attn_mask;
  if (attn_mask.rank() != 3 || attn_mask.size(0) % heads != 0)
    throw ShapeError(torch_masks, "attn_mask " + describe(attn_mask) +
                                      " must be (L, S) or (N * num_heads, L, S), with " +
                                      std::to_string(heads) + " heads");
  return reshape(attn_mask,
                 {attn_mask.size(0) / heads, heads, attn_mask.size(1), attn_mask.size(2)});
}

// (N, S) as (N, 1, 1, S), (S) as it is.
Tensor over_queries(const Tensor& key_padding_mask) {
  if (key_padding_mask.rank() == 1) return key_padding_mask;
  if (key_padding_mask.rank() != 2)
    throw ShapeError(torch_masks,
                     "key_padding_mask " + describe(key_padding_mask) + " must be (N, S) or (S)");
  return reshape(key_padding_mask, {key_padding_mask.size(0), 1, 1, key_padding_mask.size(1)});
}

void add_bias(MaskAndBias& both, const Tensor& bias) {
  both.bias = both.bias.defined() ? add(both.bias, bias) : bias;
}

}  // namespace

MaskAndBias from_torch_multihead_masks(const Tensor& attn_mask, const Tensor& key_padding_mask,
                                       std::int64_t num_heads) {
  check_positive(torch_masks, "num_heads", num_heads);
  MaskAndBias both;
  if (attn_mask.defined()) {
    const Tensor spread = with_heads(attn_mask, num_heads);
    if (is_added("attn_mask", attn_mask)) add_bias(both, spread);
    else both.mask = Mask::hide(spread);
  }
  if (key_padding_mask.defined()) {
    if (is_added("key_padding_mask", key_padding_mask))
      add_bias(both, over_queries(key_padding_mask));
    else both.mask = both.mask & Mask::padding(key_padding_mask);
  }
  return both;
}

Mask from_hugging_face_mask(const Tensor& attention_mask) {
  check_defined("from_hugging_face_mask", "attention_mask", attention_mask);
  const Tensor is_padding = attention_mask.dtype() == DType::boolean ? logical_not(attention_mask)
                                                                     : eq(attention_mask, 0);
  return Mask::padding(is_padding);
}

}  // namespace tapehead::nn
