// The option of modules to checkpoint themselves, or parts of them.
#include "support/operation_run.h"
#include "support/tensors.h"

#include <tapehead/nn/decoder_layer.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>

#include <array>
#include <functional>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

// What a step of a module gives: the loss, the gradients of all parameters, and the bytes saved.
struct Step {
  double loss = 0;
  std::vector<std::vector<double>> gradients;
  std::int64_t saved = 0;
};

template <class Forward>
Step step_of(const nn::Module& module, Forward&& forward) {
  manual_seed(9);
  Tape tape;
  const Tensor y = forward();
  const Tensor loss = sum(mul(y, y));
  Step step{.loss = loss.item(), .gradients = {}, .saved = tape.graph().saved_activation_bytes()};
  const Gradients g = tape.gradient(loss, module.parameters());
  for (const Tensor& p : module.parameters()) step.gradients.push_back(g[p].to_vector());
  return step;
}

void check_same(const Step& got, const Step& right) {
  CHECK(got.loss == right.loss);
  REQUIRE(got.gradients.size() == right.gradients.size());
  for (std::size_t i = 0; i < right.gradients.size(); ++i)
    CHECK(relative_error(got.gradients[i], right.gradients[i]) < 1e-13);
}

// `step` runs one with that much checkpointed.
void check_checkpoints(const std::function<Step(nn::Checkpointed)>& step) {
  const Step plain = step(nn::Checkpointed::none);
  const Step attention = step(nn::Checkpointed::attention);
  const Step block = step(nn::Checkpointed::block);
  check_same(attention, plain);
  check_same(block, plain);
  CHECK(attention.saved < plain.saved);
  CHECK(block.saved < attention.saved);
}

}  // namespace

TEST_CASE("Gpt with checkpointed layers or attention has the same step, and saves less") {
  for (const nn::GptPositions positions : {nn::GptPositions::learned, nn::GptPositions::alibi}) {
    const auto step = [&](nn::Checkpointed checkpoint) {
      Generator generator(3);
      const nn::Gpt gpt({.vocab_size = 7,
                         .context = 6,
                         .layers = 2,
                         .heads = 2,
                         .dim = 8,
                         .dropout = 0.2,
                         .positions = positions,
                         .checkpoint = checkpoint,
                         .dtype = DType::f64},
                        generator);
      const Tensor tokens = from_vector<std::int64_t>({1, 2, 3, 4, 0, 6}, {1, 6});
      return step_of(gpt, [&] { return gpt(tokens); });
    };
    check_checkpoints(step);
  }
}

TEST_CASE("a decoder layer with checkpoints has the same step, and saves less") {
  const Tensor target = randn({2, 4, 8}, DType::f64), memory = randn({2, 3, 8}, DType::f64);
  const auto step = [&](nn::Checkpointed checkpoint) {
    Generator generator(3);
    const nn::TransformerDecoderLayer layer({.d_model = 8,
                                             .nhead = 2,
                                             .dim_feedforward = 12,
                                             .checkpoint = checkpoint,
                                             .dtype = DType::f64},
                                            generator);
    return step_of(layer, [&] { return layer(target, memory); });
  };
  check_checkpoints(step);
}

TEST_CASE("a checkpointed attention passes gradients on to each of its inputs and to a bias") {
  const Tensor q = random_leaf({1, 3, 6}), kv = random_leaf({1, 4, 6}), bias = random_leaf({3, 4});
  const auto gradients = [&](bool checkpointed) {
    Generator generator(3);
    const nn::MultiHeadAttention attention(
        {.embed_dim = 6, .num_heads = 2, .checkpoint = checkpointed, .dtype = DType::f64},
        generator);
    Tape tape;
    const Tensor cross = attention(q, kv, kv, {}, bias);
    const Tensor self = attention(q, nn::Mask::causal());
    const Tensor loss = add(sum(mul(cross, cross)), sum(mul(self, self)));
    const Gradients g = tape.gradient(loss, {q, kv, bias});
    return std::array{g[q].to_vector(), g[kv].to_vector(), g[bias].to_vector()};
  };
  const auto got = gradients(true), right = gradients(false);
  for (std::size_t i = 0; i < right.size(); ++i) CHECK(relative_error(got[i], right[i]) < 1e-13);
}
