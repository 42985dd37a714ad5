// Every operation's dry run against its real run, to the byte; and every allocation of it failing.
#include "support/folder.h"
#include "support/operation_run.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/ledger.h>
#include <tapehead/graph/validate.h>
#include <tapehead/nn/saved_hooks.h>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

// What a run leaves on the books, at each point where something could differ.
struct Books {
  std::vector<Shape> shapes;
  std::vector<std::int64_t> live, peaks;
  std::uint64_t storages = 0;
  Graph graph;
  Graph watched;  // by a ledger: also the steps, and the births and deaths of storages in order
  bool operator==(const Books&) const = default;
};

class Bookkeeper {
 public:
  Bookkeeper() : start_(memory_stats().live), first_(next_id()) { reset_peak(); }
  void note(Books& books) {
    books.live.push_back(memory_stats().live - start_);
    books.peaks.push_back(memory_stats().peak - start_);
  }
  void finish(Books& books) { books.storages = next_id() - first_; }

 private:
  static std::uint64_t next_id() { return empty("probe", {0}, DType::f32).storage()->id(); }
  std::int64_t start_;
  std::uint64_t first_;
};

// Forward, second order, backward. The inputs are made beforehand: making layouts reads values.
Books step(const OperationCase& row, const std::vector<Tensor>& inputs, bool create_graph) {
  Books books;
  Bookkeeper keeper;
  const Ledger ledger;
  {
    Tape tape;
    const std::vector<Tensor> results = row.call(inputs);
    for (const Tensor& result : results) books.shapes.push_back(result.shape());
    keeper.note(books);
    std::vector<Tensor> upstream;
    for (const Tensor& result : results)
      upstream.push_back(empty("upstream", result.shape(), result.dtype()));
    gradients_of(tape, results, upstream, differentiable(row, inputs),
                 {.create_graph = create_graph});
    keeper.note(books);
    books.graph = tape.graph();
  }
  keeper.note(books);
  books.watched = ledger.graph();
  books.watched.live_before = 0;  // a dry run's account starts there
  keeper.finish(books);
  return books;
}

// The real run of a row and a dry one leave the same on the books.
void check_dry_run(const OperationCase& row, const std::vector<Tensor>& inputs, bool create_graph) {
  const Books real = step(row, inputs, create_graph);
  const DryRun dry;
  const Books without_data = step(row, inputs, create_graph);
  CHECK(without_data.shapes == real.shapes);
  CHECK(without_data.live == real.live);
  CHECK(without_data.peaks == real.peaks);
  CHECK(without_data.storages == real.storages);
  CHECK(without_data.graph == real.graph);
  CHECK(without_data.watched.steps == real.watched.steps);
  CHECK(without_data.watched.events == real.watched.events);
  CHECK(without_data.watched == real.watched);
  CHECK_NOTHROW(graph::validate(real.watched, "the real run"));
}

}  // namespace

TEST_CASE(
    "a dry run of every operation has the shapes, storages, bytes, peak, graph and events of the "
    "real run") {
  for_each_variation(layout_variations, [](const OperationCase& row, const Variation& variation) {
    const std::vector<Tensor> inputs = make_leaves(row, variation);
    for (const bool create_graph : {false, true}) {
      CAPTURE(create_graph);
      check_dry_run(row, inputs, create_graph);
    }
  });
}

TEST_CASE(
    "the same holds where activations are kept on disk: a dry run unpacks what a real one does") {
  const Folder folder;
  for (const OperationCase& row : operation_cases()) {
    CAPTURE(row.name());
    const std::vector<Tensor> inputs = make_leaves(row, shape_variations(row).front());
    for (const bool create_graph : {false, true}) {
      CAPTURE(create_graph);
      const nn::KeepOnDisk hooks(folder.file().parent_path());
      check_dry_run(row, inputs, create_graph);
    }
  }
}

TEST_CASE("every operation survives the failure of each of its allocations, and nothing leaks") {
  for (const OperationCase& row : operation_cases()) {
    CAPTURE(row.name());
    for (const bool create_graph : {false, true}) {
      const std::vector<Tensor> inputs = make_leaves(row, shape_variations(row).front());
      const std::int64_t before = memory_stats().live;
      for (std::int64_t nth = 1;; ++nth) {
        REQUIRE(nth < 1000);
        const FailNthAllocation fail(nth);
        bool survived = true;
        try {
          step(row, inputs, create_graph);
        } catch (const OutOfMemoryError&) {
          survived = false;
        }
        CHECK(memory_stats().live == before);
        CHECK(Tape::recording() == nullptr);
        if (survived) break;
      }
    }
  }
}
