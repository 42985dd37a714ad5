// What PyTorch wrote (tests/support/make_torch_encoder.py) loads by its names and computes the
// same: torch.nn.TransformerEncoder, post-norm with relu, and pre-norm with gelu and a last norm.
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

Case read_case(const std::string& name) {
  Case tensors;
  const std::string path = TAPEHEAD_SOURCE_DIR "/tests/data/torch_encoder.safetensors";
  for (const NamedTensor& entry : load_safetensors(path).tensors)
    if (entry.name.starts_with(name + "."))
      tensors.emplace(entry.name.substr(name.size() + 1), entry.tensor);
  return tensors;
}

StateDict state_of(const Case& tensors) {
  StateDict state;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with("state.")) state.push_back({name.substr(6), tensor});
  return state;
}

// The bound that is asked of f32. Values and gradients are up to 10, so it allows some ten
// roundings.
void check_same(const std::string& name, const Tensor& ours, const Tensor& torch) {
  CHECK_MESSAGE(allclose(ours, torch, 1e-5, 1e-5), name);
}

void check_case(const std::string& name, bool norm_first, Activation activation,
                AttentionPath path) {
  const Case expected = read_case(name);
  TransformerEncoder encoder({.layer = {.d_model = 12,
                                        .nhead = 3,
                                        .dim_feedforward = 20,
                                        .dropout = 0,
                                        .activation = activation,
                                        .norm_first = norm_first,
                                        .path = path},
                              .num_layers = 2,
                              .final_norm = norm_first});
  encoder.load_state_dict(state_of(expected));
  const Tensor src = parameter(clone(expected.at("src")));
  const auto [mask, bias] = from_torch_multihead_masks({}, expected.at("padding"), 3);
  Tape tape;
  const Tensor output = encoder(src, mask, bias);
  check_same("output", output, expected.at("output"));
  StateDict wanted = encoder.named_parameters();
  wanted.push_back({"src", src});
  std::vector<Tensor> leaves;
  for (const NamedTensor& entry : wanted) leaves.push_back(entry.tensor);
  const Gradients g = tape.gradient(output, leaves, expected.at("upstream"));
  for (const NamedTensor& entry : wanted)
    check_same(entry.name, g[entry.tensor], expected.at("gradient." + entry.name));
}

}  // namespace

TEST_CASE("PyTorch's post-norm relu encoder: output and all gradients agree to 1e-5 in f32") {
  for (const AttentionPath path : {AttentionPath::composed, AttentionPath::fused})
    check_case("post_relu", false, Activation::relu, path);
}

TEST_CASE("PyTorch's pre-norm gelu encoder: output and all gradients agree to 1e-5 in f32") {
  for (const AttentionPath path : {AttentionPath::composed, AttentionPath::fused})
    check_case("pre_gelu", true, Activation::gelu, path);
}
