// A program of somebody else: one training step of attention, and the table of what it saved. It
// fails if the library is not of the version that its headers say, or if an error that the library
// throws is not caught as what it is.
#include <tapehead/graph/text.h>
#include <tapehead/tapehead.h>

#include <iostream>

using namespace tapehead;

namespace {

bool error_arrives() {
  try {
    matmul(ones({2, 3}), ones({4, 5}));
  } catch (const ShapeError&) {
    return true;
  }
  return false;
}

}  // namespace

int main() {
  nn::MultiHeadAttention attention({.embed_dim = 16, .num_heads = 2});
  nn::AdamW optimizer(attention, {.lr = 1e-2});
  const Tensor x = randn({2, 8, 16}), target = randn({2, 8, 16});
  Tape tape;
  const Tensor loss = mse_loss(attention(x, nn::Mask::causal()), target);
  optimizer.step(tape.gradient(loss, attention.parameters()));
  std::cout << "Tapehead " << version() << ", loss " << loss.item() << "\n"
            << graph::saved_table(tape.graph());
  return version() == TAPEHEAD_VERSION && error_arrives() ? 0 : 1;
}
