// What `tapehead plan` may be told.
#include <CLI/CLI.hpp>
#include <memory>

#include "add_command.h"
#include "plan/command.h"

namespace tapehead::program {
namespace {

void add_sizes(CLI::App& sub, PlanCommand& command) {
  sub.add_option("--model", command.model,
                 "gpt2, gpt2-medium, gpt2-large, gpt2-xl, 7b, or a file NAME.json with layers, "
                 "heads, dim, context, vocabulary and, optionally, dropout and tied_output");
  sub.add_option("--layers", command.layers, "Transformer blocks");
  sub.add_option("--heads", command.heads, "Attention heads; they divide dim");
  sub.add_option("--dim", command.dim, "Features");
  sub.add_option("--context", command.context,
                 "Length of the sequences, and the table of positions");
  sub.add_option("--vocabulary", command.vocabulary, "Different tokens");
  sub.add_option("--dropout", command.dropout, "Of the blocks and the embeddings");
  sub.add_flag("--tied-output", command.tied_output, "Logits by the token embedding's weight");
}

void add_training(CLI::App& sub, PlanCommand& command) {
  sub.add_option("--batch", command.batch, "Sequences a step (default: 1)");
  sub.add_option("--dtype", command.dtype, "f32, f64, bf16 or f16")->capture_default_str();
  sub.add_option("--attention", command.attention, "composed or fused")->capture_default_str();
  sub.add_option("--checkpoint", command.checkpoint,
                 "What the backward pass computes again: none, block or attention")
      ->capture_default_str();
  sub.add_option("--optimizer", command.optimizer, "sgd or adamw")->capture_default_str();
}

void add_ranks(CLI::App& sub, PlanCommand& command) {
  sub.add_option("--ranks", command.ranks,
                 "How long so many take for each other's gradients, and how much of that the "
                 "backward pass hides");
  sub.add_option("--bandwidth", command.bandwidth, "GB/s from rank to rank (default: 1.25)");
  sub.add_option("--latency", command.latency, "Microseconds of a message (default: 50)");
  sub.add_option("--gflops", command.gflops,
                 "What a rank reaches, by which its passes are timed (default: 20)");
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<PlanCommand>();
  CLI::App& sub = add_command(
      app, "plan",
      "What a training step of a model would cost: bytes, to the byte, and the floating-point "
      "operations of its forward matrix products, by module, from a run of the real model without "
      "data. Exit code 0, or 1 when --memory is given and does not suffice for certain.\n"
      "Example: tapehead plan --model gpt2 --attention fused --memory 24GiB --fit batch",
      command, run_plan, exit_code);
  add_sizes(sub, *command);
  add_training(sub, *command);
  sub.add_option("--memory", command->memory, "Whether it fits in so much: 24GiB, 80GB, bytes");
  sub.add_option("--fit", command->fit, "batch or context: the largest that fits in --memory");
  add_ranks(sub, *command);
  sub.add_flag("--formula", command->formula, "Closed forms of the figures in the sizes");
  sub.add_flag("--json", command->as_json, "The report as JSON");
}

}  // namespace tapehead::program
