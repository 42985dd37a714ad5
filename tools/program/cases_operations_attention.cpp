#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/nn/transformer.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/views.h>

#include "cases_operations.h"

namespace tapehead::program {
namespace {

[[noreturn]] void not_offered(const std::string& what) {
  throw std::runtime_error(what + " is not offered");
}

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

// ---- scaled_dot_product_attention ----------------------------------------------------------------

nn::Mask attention_mask(Call& c) {
  const Tensor mask = c.optional("mask");
  if (mask.defined() && is_floating(mask.dtype())) not_offered("a mask that is added");
  if (c.truth("is_causal")) return nn::Mask::causal(nn::Align::top_left);
  return mask.defined() ? nn::Mask::keep(mask) : nn::Mask();
}

Tensor scaled_dot_product_attention(Call& c) {
  if (c.truth("enable_gqa")) not_offered("grouped attention");
  const nn::Mask mask = attention_mask(c);
  return nn::attention(c["q"], c["k"], c["v"], {.mask = mask, .scale = c.optional_number("scale")});
}

// ---- multi_head_attention ------------------------------------------------------------------------

// In these two masks true means hidden. A mask of rank 3 has the heads of all sequences in its first
// dim, sequence by sequence.
nn::Mask hiding_masks(const Tensor& attention, const Tensor& padding, std::int64_t heads) {
  nn::Mask mask;
  if (attention.defined()) {
    if (is_floating(attention.dtype())) not_offered("a mask that is added");
    const bool per_head = attention.rank() == 3;
    mask = nn::Mask::hide(per_head ? reshape(attention, {-1, heads, attention.size(1), attention.size(2)})
                                   : attention);
  }
  return padding.defined() ? mask & nn::Mask::padding(padding) : mask;
}

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
  const nn::Mask mask = hiding_masks(c.optional("attn_mask"), c.optional("key_padding_mask"), heads);
  const bool averaged = c.truth("average_attn_weights");
  if (!c.truth("need_weights")) return {attention(query, key, value, mask)};
  const auto both = attention.with_weights(
      query, key, value, mask, averaged ? nn::HeadWeights::averaged : nn::HeadWeights::per_head);
  return {both.output, both.weights};
}

// ---- transformer_encoder_layer -------------------------------------------------------------------

Tensor transformer_encoder_layer(Call& c) {
  const std::int64_t heads = c.integer("nhead");
  if (!c.truth("norm_first")) not_offered("a layer that normalises last");
  nn::TransformerBlock layer({.dim = c.integer("d_model"),
                              .heads = heads,
                              .hidden = c.integer("dim_feedforward"),
                              .activation = nn::parse_activation(c.text("activation")),
                              .eps = c.number("layer_norm_eps"),
                              .dtype = DType::f64});
  use_inputs(layer, c);
  const nn::Mask mask = hiding_masks(c.optional("src_mask"), c.optional("src_key_padding_mask"), heads);
  return layer(c["src"], mask);
}

}  // namespace

void add_attention(Operations& t) {
  t.add("scaled_dot_product_attention", scaled_dot_product_attention);
  t.add("multi_head_attention", multi_head_attention);
  t.add("transformer_encoder_layer", transformer_encoder_layer);
}

}  // namespace tapehead::program
