#include <tapehead/nn/checkpoint.h>
#include <tapehead/nn/decoder_layer.h>
#include <tapehead/ops/binary.h>

namespace tapehead::nn {

TransformerDecoderLayer::TransformerDecoderLayer(TransformerLayerOptions options,
                                                 Generator& generator)
    : self_attn(self_attention_options(options), generator),
      multihead_attn(cross_attention_options(options), generator),
      feed_forward(feed_forward_options(options), generator),
      norm1(layer_norm_options(options)),
      norm2(layer_norm_options(options)),
      norm3(layer_norm_options(options)),
      dropout1(options.dropout),
      dropout2(options.dropout),
      dropout3(options.dropout),
      options_(options) {}

// attend(x) is the self-attention. The sum with a branch is made in the branch's own memory, which
// is moved in.
template <class Attend>
Tensor TransformerDecoderLayer::run(const Tensor& tgt, const Tensor& memory,
                                    const Mask& memory_mask, Attend&& attend) const {
  const bool first = options_.norm_first;
  Tensor branch = dropout1(attend(first ? norm1(tgt) : tgt));
  Tensor x = tgt + std::move(branch);
  if (!first) x = norm1(x);
  branch = dropout2(multihead_attn(first ? norm2(x) : x, memory, memory, memory_mask));
  Tensor informed = x + std::move(branch);
  if (!first) informed = norm2(informed);
  branch = dropout3(feed_forward(first ? norm3(informed) : informed));
  const Tensor sum = informed + std::move(branch);
  return first ? sum : norm3(sum);
}

Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory,
                                           const Mask& mask, const Mask& memory_mask) const {
  const ModuleScope scope = enter();
  const auto whole = [this, mask, memory_mask](const Tensor& target, const Tensor& source) {
    return run(target, source, memory_mask, [&](const Tensor& x) { return self_attn(x, mask); });
  };
  if (options_.checkpoint != Checkpointed::block) return whole(tgt, memory);
  return checkpoint([whole](const std::vector<Tensor>& in) { return whole(in[0], in[1]); },
                    {tgt, memory});
}

Tensor TransformerDecoderLayer::decode(const Tensor& x, const Tensor& memory, KeyValueCache& cache,
                                       const Mask& mask, const Mask& memory_mask) const {
  const ModuleScope scope = enter();
  return run(x, memory, memory_mask,
             [&](const Tensor& tokens) { return self_attn.decode(tokens, cache, mask); });
}

void TransformerDecoderLayer::visit(Visitor& visitor) {
  visitor("self_attn", self_attn);
  visitor("multihead_attn", multihead_attn);
  // No level of its own: linear1 and linear2 stand beside self_attn, as PyTorch names them.
  visitor("", feed_forward);
  visitor("norm1", norm1);
  visitor("norm2", norm2);
  visitor("norm3", norm3);
  visitor("dropout1", dropout1);
  visitor("dropout2", dropout2);
  visitor("dropout3", dropout3);
}

std::string TransformerDecoderLayer::summary() const {
  return summary_of("TransformerDecoderLayer", options_);
}

}  // namespace tapehead::nn
