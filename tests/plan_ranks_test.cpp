// tapehead plan --ranks: what the gradients of several ranks cost, by the graph of a step.
#include "../tools/program/plan/plan.h"
#include "../tools/program/plan/ranks.h"
#include "../tools/program/train/evaluate.h"
#include "support/checks.h"
#include "support/folder.h"
#include "support/program.h"
#include "support/thread_group.h"

#include <tapehead/core/ledger.h>
#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/tapehead.h>

using namespace tapehead;
using namespace tapehead::program;
using doctest::Approx;
using tests::contains;

namespace {

TrainingSetup small_setup(nn::Checkpointed checkpoint, bool tied_output) {
  return {.model = {.vocab_size = 19,
                    .context = 7,
                    .layers = 3,
                    .heads = 2,
                    .dim = 12,
                    .tied_output = tied_output,
                    .checkpoint = checkpoint},
          .batch = 5};
}

// One flop, and one byte, a second.
RanksSetup slow(std::int64_t ranks, std::int64_t bucket_bytes) {
  return {.ranks = ranks,
          .bytes_per_second = 1,
          .latency = 0,
          .flops_per_second = 1,
          .bucket_bytes = bucket_bytes};
}

nn::DataParallel::Traffic real_traffic(const TrainingSetup& setup, std::int64_t bucket_bytes) {
  nn::DataParallel::Traffic traffic;
  const std::vector<std::string> thrown = tests::on_ranks(2, [&](tests::ThreadGroup& group) {
    Generator g(1);
    const nn::Gpt model(setup.model, g);
    nn::DataParallel parallel(model, group, {.bucket_bytes = bucket_bytes});
    const Tensor tokens = zeros({setup.batch, setup.model.context}, DType::i64);
    Tape tape;
    parallel.gradient(tape, next_character_loss(model, {tokens, tokens}));
    if (group.rank() == 0) traffic = parallel.traffic();
  });
  CHECK(thrown == std::vector<std::string>(2));
  return traffic;
}

}  // namespace

TEST_CASE("the buckets that are planned are those of DataParallel") {
  for (const nn::Checkpointed checkpoint :
       {nn::Checkpointed::none, nn::Checkpointed::attention, nn::Checkpointed::block})
    for (const bool tied_output : {false, true})
      for (const std::int64_t bucket_bytes : {1, 3000, 1 << 20}) {
        const TrainingSetup setup = small_setup(checkpoint, tied_output);
        const RanksCosts planned =
            ranks_costs_of(training_step(setup), {.bucket_bytes = bucket_bytes});
        const nn::DataParallel::Traffic real = real_traffic(setup, bucket_bytes);
        CHECK(planned.buckets == real.buckets);
        CHECK(planned.gradient_bytes == real.bytes);
      }
}

TEST_CASE("a rule takes its operation's time for each operand, and what it computes again") {
  for (const nn::Checkpointed checkpoint : {nn::Checkpointed::none, nn::Checkpointed::block}) {
    const Graph graph = training_step(small_setup(checkpoint, false));
    const Costs costs = costs_of(graph);
    // Both operands of every product in the model want a gradient.
    CHECK(ranks_costs_of(graph, slow(2, 1)).computing ==
          static_cast<double>(3 * costs.flops + costs.recomputed));
  }
}

TEST_CASE("a ring's time is that of its formula, for any number of ranks") {
  const Graph graph = training_step(small_setup(nn::Checkpointed::none, false));
  for (const std::int64_t ranks : {1, 2, 3, 8}) {
    RanksSetup setup = slow(ranks, 3000);
    const RanksCosts bytes = ranks_costs_of(graph, setup);
    const double part = 2.0 * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    CHECK(bytes.communicating == Approx(part * static_cast<double>(bytes.gradient_bytes)));
    CHECK(static_cast<double>(bytes.sent_bytes) == Approx(bytes.communicating).epsilon(1e-4));
    CHECK(bytes.hidden + bytes.exposed == Approx(bytes.communicating));
    setup.latency = 1e9;
    const double messages = 2.0 * static_cast<double>((ranks - 1) * bytes.buckets);
    CHECK(ranks_costs_of(graph, setup).communicating ==
          Approx(bytes.communicating + messages * 1e9));
  }
}

TEST_CASE("what a walk hides of its buckets is as computed by hand") {
  const Tensor x = zeros({2, 3}), a = parameter(zeros({3, 5})), b = parameter(zeros({5, 7}));
  const auto graph_of_step = [&] {
    const Ledger ledger;
    {
      Tape tape;
      tape.gradient(sum(matmul(matmul(x, a), b)), {a, b});
    }
    return ledger.graph();
  };
  const Graph graph = graph_of_step();
  // 2 * 2 * 3 * 5 = 60 flops, and 2 * 2 * 5 * 7 = 140. b is complete 280 seconds after the walk's
  // begin, and a, whose partner wants no gradient, 60 later. A bucket has a mark of 4 bytes.
  RanksSetup setup = slow(2, 1);
  RanksCosts costs = ranks_costs_of(graph, setup);
  CHECK(costs.computing == 60 + 140 + 340);
  CHECK(costs.communicating == (140 + 4) + (60 + 4));
  CHECK(costs.exposed == 280 + 144 + 64 - 340);
  setup.bytes_per_second = 16;  // b's bucket has arrived when a's is complete
  costs = ranks_costs_of(graph, setup);
  CHECK(costs.exposed == 64 / 16);
  CHECK(costs.hidden == 144 / 16);
  setup = slow(2, 1000);  // one bucket
  costs = ranks_costs_of(graph, setup);
  CHECK(costs.exposed == 208);
  CHECK(costs.hidden == 0);
}

TEST_CASE("tapehead plan --ranks reports it, and refuses what cannot be") {
  const tests::Folder folder;
  const auto run = [&](const std::string& arguments) {
    return tests::run_program("plan --model gpt2 " + arguments + " > out.txt 2> err.txt",
                              folder.file("").string());
  };
  const auto content = [&](const char* name) { return io::read_file("test", folder.file(name)); };
  REQUIRE(run("--ranks 4 --bandwidth 3 --latency 20 --gflops 100") == 0);
  CHECK(contains(content("out.txt"),
                 "4 ranks that average their gradients, by ring all-reduce at 3 GB/s "
                 "and 20 us a message"));
  CHECK(contains(content("out.txt"), "hidden behind the backward pass"));
  REQUIRE(run("--ranks 4 --json") == 0);
  CHECK(contains(content("out.txt"), "\"exposed_seconds\""));
  for (const auto& [arguments, what] :
       {std::pair{"--latency 3", "--bandwidth, --latency and --gflops need --ranks"},
        {"--ranks 0", "--ranks 0: it must be positive"},
        {"--ranks 2 --bandwidth 0", "--bandwidth 0: it must be positive"},
        {"--ranks 2 --latency -1", "--latency -1: it must be at least 0"},
        {"--ranks 2 --gflops -2.5", "--gflops -2.5: it must be positive"}}) {
    CHECK(run(arguments) == 2);
    CHECK(contains(content("err.txt"), what));
  }
}
