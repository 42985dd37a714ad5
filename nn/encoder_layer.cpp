#include <tapehead/nn/checkpoint.h>
#include <tapehead/nn/encoder_layer.h>
#include <tapehead/ops/binary.h>

namespace tapehead::nn {

TransformerEncoderLayer::TransformerEncoderLayer(TransformerLayerOptions options,
                                                 Generator& generator)
    : self_attn(self_attention_options(options), generator),
      feed_forward(feed_forward_options(options), generator),
      norm1(layer_norm_options(options)),
      norm2(layer_norm_options(options)),
      dropout1(options.dropout),
      dropout2(options.dropout),
      options_(options) {}

// attend(x) is the self-attention. The sum with a branch is made in the branch's own memory, which
// is moved in.
template <class Attend>
Tensor TransformerEncoderLayer::run(const Tensor& src, Attend&& attend) const {
  const bool first = options_.norm_first;
  Tensor branch = dropout1(attend(first ? norm1(src) : src));
  Tensor attended = src + std::move(branch);
  if (!first) attended = norm1(attended);
  branch = dropout2(feed_forward(first ? norm2(attended) : attended));
  const Tensor sum = attended + std::move(branch);
  return first ? sum : norm2(sum);
}

Tensor TransformerEncoderLayer::operator()(const Tensor& src, const Mask& mask,
                                           const Tensor& bias) const {
  const ModuleScope scope = enter();
  const auto whole = [this, mask](const Tensor& x, const Tensor& added) {
    return run(x, [&](const Tensor& y) { return self_attn(y, y, y, mask, added); });
  };
  if (options_.checkpoint != Checkpointed::block) return whole(src, bias);
  if (!bias.defined())
    return checkpoint([whole](const std::vector<Tensor>& in) { return whole(in[0], {}); }, {src});
  return checkpoint([whole](const std::vector<Tensor>& in) { return whole(in[0], in[1]); },
                    {src, bias});
}

Tensor TransformerEncoderLayer::decode(const Tensor& x, KeyValueCache& cache, const Mask& mask,
                                       const Tensor& bias) const {
  const ModuleScope scope = enter();
  return run(x, [&](const Tensor& tokens) { return self_attn.decode(tokens, cache, mask, bias); });
}

void TransformerEncoderLayer::visit(Visitor& visitor) {
  visitor("self_attn", self_attn);
  // No level of its own: linear1 and linear2 stand beside self_attn, as PyTorch names them.
  visitor("", feed_forward);
  visitor("norm1", norm1);
  visitor("norm2", norm2);
  visitor("dropout1", dropout1);
  visitor("dropout2", dropout2);
}

std::string TransformerEncoderLayer::summary() const {
  return summary_of("TransformerEncoderLayer", options_);
}

}  // namespace tapehead::nn
