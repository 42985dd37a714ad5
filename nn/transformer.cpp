#include <tapehead/nn/check.h>
#include <tapehead/nn/transformer.h>

namespace tapehead::nn {

namespace {

template <class Layer>
void make_layers(const char* kind, const TransformerStackOptions& options, Generator& generator,
                 std::vector<Layer>& layers, std::optional<LayerNorm>& norm) {
  check_positive(kind, "num_layers", options.num_layers);
  for (std::int64_t i = 0; i < options.num_layers; ++i)
    layers.emplace_back(options.layer, generator);
  if (options.final_norm) norm.emplace(layer_norm_options(options.layer));
}

// The mask with its tensor made once for all layers. Inputs of a wrong rank are left to the layers.
Mask shared(const Mask& mask, const Tensor& queries, const Tensor& keys, std::int64_t heads) {
  const int rank = queries.rank();
  if ((rank != 2 && rank != 3) || keys.rank() != rank) return mask;
  const std::int64_t batch = rank == 3 ? queries.size(0) : 1;
  return mask.prepared({batch, heads, queries.size(-2), keys.size(-2)});
}

std::string summary_of_stack(const char* kind, const TransformerStackOptions& options) {
  return std::string(kind) + "(" + std::to_string(options.num_layers) + " layers)";
}

}  // namespace

// ---- TransformerEncoder ------------------------------------------------------------------------

TransformerEncoder::TransformerEncoder(TransformerStackOptions options, Generator& generator)
    : options_(options) {
  make_layers("TransformerEncoder", options, generator, layers, norm);
}

Tensor TransformerEncoder::operator()(const Tensor& src, const Mask& mask,
                                      const Tensor& bias) const {
  const ModuleScope scope = enter();
  const Mask layer_mask = shared(mask, src, src, options_.layer.nhead);
  Tensor x = src;
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, layer_mask, bias);
  return norm ? (*norm)(x) : x;
}

void TransformerEncoder::visit(Visitor& visitor) {
  visitor("layers", layers);
  visitor("norm", norm);
}

std::string TransformerEncoder::summary() const {
  return summary_of_stack("TransformerEncoder", options_);
}

// ---- TransformerDecoder ------------------------------------------------------------------------

TransformerDecoder::TransformerDecoder(TransformerStackOptions options, Generator& generator)
    : options_(options) {
  make_layers("TransformerDecoder", options, generator, layers, norm);
}

Tensor TransformerDecoder::operator()(const Tensor& tgt, const Tensor& memory, const Mask& mask,
                                      const Mask& memory_mask) const {
  const ModuleScope scope = enter();
  const std::int64_t heads = options_.layer.nhead;
  const Mask self_mask = shared(mask, tgt, tgt, heads);
  const Mask cross_mask = shared(memory_mask, tgt, memory, heads);
  Tensor x = tgt;
  for (const TransformerDecoderLayer& layer : layers) x = layer(x, memory, self_mask, cross_mask);
  return norm ? (*norm)(x) : x;
}

void TransformerDecoder::visit(Visitor& visitor) {
  visitor("layers", layers);
  visitor("norm", norm);
}

std::string TransformerDecoder::summary() const {
  return summary_of_stack("TransformerDecoder", options_);
}

}  // namespace tapehead::nn
