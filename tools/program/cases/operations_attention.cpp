#include <tapehead/nn/encoder_layer.h>
#include <tapehead/nn/mask_conversions.h>
#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/nn/sdpa.h>
#include <tapehead/ops/join.h>

#include "operations.h"

namespace tapehead::program {
namespace {

/// Puts the case's inputs in the place of a module's parameters, by their names in its state dict.
class UseInputs final : public nn::Visitor {
 public:
  UseInputs(Call& call, std::string prefix) : call_(call), prefix_(std::move(prefix)) {}

 protected:
  void on_parameter(std::string_view name, Tensor& parameter) override {
    const Tensor input = call_[prefix_ + std::string(name)];
    parameter = input.is_leaf() ? input : tapehead::parameter(clone(input));
  }
  void on_child(std::string_view name, nn::Module& child) override {
    UseInputs below(call_, name.empty() ? prefix_ : prefix_ + std::string(name) + ".");
    child.visit(below);
  }

 private:
  Call& call_;
  std::string prefix_;
};

void use_inputs(nn::Module& module, Call& call) {
  UseInputs visitor(call, "");
  module.visit(visitor);
}

// ---- scaled_dot_product_attention ---------------------------------------------------------------

Tensor scaled_dot_product_attention(Call& c) {
  return nn::scaled_dot_product_attention(c["q"], c["k"], c["v"], c.optional("mask"),
                                          {.is_causal = c.truth("is_causal"),
                                           .scale = c.optional_number("scale"),
                                           .enable_gqa = c.truth("enable_gqa")});
}

// ---- multi_head_attention -----------------------------------------------------------------------

std::vector<Tensor> multi_head_attention(Call& c) {
  const std::int64_t heads = c.integer("num_heads");
  nn::MultiHeadAttention attention({.embed_dim = c.integer("embed_dim"),
                                    .num_heads = heads,
                                    .bias = c.truth("bias"),
                                    .kdim = c.optional_integer("kdim"),
                                    .vdim = c.optional_integer("vdim"),
                                    .dtype = DType::f64});
  use_inputs(attention, c);
  const Tensor query = c["query"], key = c["key"], value = c["value"];
  const Tensor attn_mask = c.optional("attn_mask"), padding = c.optional("key_padding_mask");
  const auto [mask, bias] = nn::from_torch_multihead_masks(attn_mask, padding, heads);
  const bool averaged = c.truth("average_attn_weights");
  if (!c.truth("need_weights")) return {attention(query, key, value, mask, bias)};
  const auto both = attention.with_weights(
      query, key, value, mask, averaged ? nn::HeadWeights::averaged : nn::HeadWeights::per_head,
      bias);
  return {both.output, both.weights};
}

// ---- transformer_encoder_layer ------------------------------------------------------------------

Tensor transformer_encoder_layer(Call& c) {
  const std::int64_t heads = c.integer("nhead");
  nn::TransformerEncoderLayer layer({.d_model = c.integer("d_model"),
                                     .nhead = heads,
                                     .dim_feedforward = c.integer("dim_feedforward"),
                                     .dropout = 0,
                                     .activation = nn::parse_activation(c.text("activation")),
                                     .layer_norm_eps = c.number("layer_norm_eps"),
                                     .norm_first = c.truth("norm_first"),
                                     .dtype = DType::f64});
  use_inputs(layer, c);
  const Tensor src = c["src"];
  const Tensor src_mask = c.optional("src_mask"), padding = c.optional("src_key_padding_mask");
  const auto [mask, bias] = nn::from_torch_multihead_masks(src_mask, padding, heads);
  return layer(src, mask, bias);
}

}  // namespace

void add_attention(Operations& t) {
  t.add("scaled_dot_product_attention", scaled_dot_product_attention);
  t.add("multi_head_attention", multi_head_attention);
  t.add("transformer_encoder_layer", transformer_encoder_layer);
}

}  // namespace tapehead::program
