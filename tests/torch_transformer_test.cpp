// What PyTorch wrote (tests/support/make_torch_transformers.py) loads by its names and computes the
// same: torch.nn.TransformerEncoder and TransformerDecoder, post-norm with relu, and pre-norm with
// gelu and a last norm.
#include "support/attention.h"
#include "support/checks.h"

#include <tapehead/nn/mask_conversions.h>
#include <tapehead/nn/safetensors.h>
#include <tapehead/nn/transformer.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/join.h>

#include <map>

using namespace tapehead;
using namespace tapehead::nn;

namespace {

// The tensors of a case, without its name in theirs.
using Case = std::map<std::string, Tensor>;

Case read_case(const std::string& file, bool norm_first) {
  const std::string prefix = norm_first ? "pre_gelu." : "post_relu.";
  Case tensors;
  for (const NamedTensor& entry :
       load_safetensors(TAPEHEAD_SOURCE_DIR "/tests/data/" + file + ".safetensors").tensors)
    if (entry.name.starts_with(prefix))
      tensors.emplace(entry.name.substr(prefix.size()), entry.tensor);
  return tensors;
}

StateDict state_of(const Case& tensors) {
  StateDict state;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with("state.")) state.push_back({name.substr(6), tensor});
  return state;
}

Tensor leaf(const Case& tensors, const char* name) { return parameter(clone(tensors.at(name))); }

TransformerStackOptions options_of(std::int64_t dim, std::int64_t heads, std::int64_t hidden,
                                   bool norm_first, AttentionPath path) {
  return {.layer = {.d_model = dim,
                    .nhead = heads,
                    .dim_feedforward = hidden,
                    .dropout = 0,
                    .activation = norm_first ? Activation::gelu : Activation::relu,
                    .norm_first = norm_first,
                    .path = path},
          .num_layers = 2,
          .final_norm = norm_first};
}

// 1e-5 is what is asked of f32: values and gradients are up to 10, which allows some ten roundings.
void check_same(const std::string& name, const Tensor& ours, const Tensor& torch) {
  CHECK_MESSAGE(allclose(ours, torch, 1e-5, 1e-5), name);
}

// The output and the gradients of all parameters and of `inputs`, whose names are the file's.
void check_case(const Case& expected, Tape& tape, const Module& model, const Tensor& output,
                const StateDict& inputs) {
  check_same("output", output, expected.at("output"));
  StateDict wanted = model.named_parameters();
  wanted.insert(wanted.end(), inputs.begin(), inputs.end());
  std::vector<Tensor> leaves;
  for (const NamedTensor& entry : wanted) leaves.push_back(entry.tensor);
  const Gradients g = tape.gradient(output, leaves, expected.at("upstream"));
  for (const NamedTensor& entry : wanted)
    check_same(entry.name, g[entry.tensor], expected.at("gradient." + entry.name));
}

}  // namespace

TEST_CASE("PyTorch's encoders load: output and all gradients agree to 1e-5 in f32") {
  for (const bool norm_first : {false, true}) {
    for (const AttentionPath path : tests::both_paths) {
      const Case expected = read_case("torch_encoder", norm_first);
      TransformerEncoder encoder(options_of(12, 3, 20, norm_first, path));
      encoder.load_state_dict(state_of(expected));
      const Tensor src = leaf(expected, "src");
      const auto [mask, bias] = from_torch_multihead_masks({}, expected.at("padding"), 3);
      Tape tape;
      const Tensor output = encoder(src, mask, bias);
      check_case(expected, tape, encoder, output, {{"src", src}});
    }
  }
}

TEST_CASE("PyTorch's decoders load: output and all gradients agree to 1e-5 in f32") {
  for (const bool norm_first : {false, true}) {
    for (const AttentionPath path : tests::both_paths) {
      const Case expected = read_case("torch_decoder", norm_first);
      TransformerDecoder decoder(options_of(8, 2, 12, norm_first, path));
      decoder.load_state_dict(state_of(expected));
      const Tensor tgt = leaf(expected, "tgt"), memory = leaf(expected, "memory");
      const Mask padding = Mask::padding(expected.at("padding"));
      Tape tape;
      const Tensor output = decoder(tgt, memory, Mask::causal(), padding);
      check_case(expected, tape, decoder, output, {{"tgt", tgt}, {"memory", memory}});
    }
  }
}
