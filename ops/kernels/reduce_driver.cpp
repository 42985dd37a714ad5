#include <tapehead/ops/kernels/reduce_driver.h>
#include <tapehead/ops/kernels/reduce_plan.h>

namespace tapehead::kernels {
namespace {

constexpr std::int64_t grain = 32768;  // elements

// Items for a thread, so that each has about `grain` elements.
std::int64_t grain_of(std::int64_t elements_of_an_item) {
  return grain / std::max<std::int64_t>(elements_of_an_item, 1) + 1;
}

// Room for accumulators or parameters of any fold.
template <std::int64_t count>
struct alignas(64) Slots {
  std::byte bytes[static_cast<std::size_t>(count) * Fold::slot];
};

class Reduction {
 public:
  Reduction(const View& x, const View& y, const Fold& fold)
      : plan_(plan_reduction(x, y)), fold_(fold) {}

  void run() {
    if (plan_.side_by_side) run_side_by_side();
    else run_one_by_one();
  }

 private:
  // ---- one result after the other, along its elements ----

  // The elements [begin, end) of one result, into a fresh accumulator.
  void fold_range(std::int64_t x, std::int64_t y, std::int64_t begin, std::int64_t end,
                  void* acc) const {
    Slots<1> parameter;
    fold_.start(y, 0, 1, acc, parameter.bytes);
    for_each_run(plan_.reduced, begin, end, [&](const auto& offsets, std::int64_t count) {
      fold_.add_elements(x + offsets[0], plan_.reduced.inner_stride(0), count, acc,
                         parameter.bytes);
    });
  }

  void run_one_by_one() {
    const std::int64_t chunks = plan_.chunks(1);
    if (chunks == 1) return run_whole_results();
    const auto run_tasks = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t chunk = task % chunks, result = task / chunks;
        const auto at = offsets_at(plan_.kept, result);
        fold_range(at[0], at[1], plan_.chunk_begin(chunk, chunks),
                   plan_.chunk_begin(chunk + 1, chunks), partial(chunk, result));
      }
    };
    parallel_for(plan_.results * chunks, 1, run_tasks);
    store_partials(chunks);
  }

  void run_whole_results() {
    const std::int64_t n = plan_.elements, step = plan_.reduced.inner_stride(0);
    const std::int64_t dx = plan_.kept.inner_stride(0), dy = plan_.kept.inner_stride(1);
    const bool one_run = plan_.reduced.shape.rank() == 1;
    const auto run_results = [&](const auto& offsets, std::int64_t count) {
      if (one_run) return fold_.reduce_runs(offsets[0], dx, offsets[1], dy, count, step, n);
      for (std::int64_t k = 0; k < count; ++k) {
        Slots<1> acc;
        fold_range(offsets[0] + k * dx, offsets[1] + k * dy, 0, n, acc.bytes);
        fold_.store(offsets[1] + k * dy, 0, 1, acc.bytes);
      }
    };
    parallel_runs(plan_.kept, grain_of(n), run_results);
  }

  // ---- results side by side, along rows of them ----

  void run_side_by_side() {
    const std::int64_t row = plan_.kept.shape.back();
    const std::int64_t blocks = (row + ReducePlan::block - 1) / ReducePlan::block;
    const std::int64_t width = std::min(row, ReducePlan::block);
    const std::int64_t chunks = plan_.chunks(width);
    const auto run_tasks = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t unit = task / chunks, column = unit % blocks * ReducePlan::block;
        fold_block_of_results(unit / blocks * row + column,
                              std::min(ReducePlan::block, row - column), task % chunks, chunks);
      }
    };
    const std::int64_t tasks = row == 0 ? 0 : plan_.results / row * blocks * chunks;
    parallel_for(tasks, grain_of(plan_.elements * width / chunks), run_tasks);
    if (chunks > 1) store_partials(chunks);
  }

  // Results [first, first + count), side by side in x, over one chunk of their elements.
  void fold_block_of_results(std::int64_t first, std::int64_t count, std::int64_t chunk,
                             std::int64_t chunks) {
    const auto at = offsets_at(plan_.kept, first);
    const std::int64_t dy = plan_.kept.inner_stride(1);
    Slots<ReducePlan::block> whole, parameters;
    void* const acc = chunks == 1 ? whole.bytes : partial(chunk, first);
    fold_.start(at[1], dy, count, acc, parameters.bytes);
    const auto add = [&](const auto& offsets, std::int64_t rows) {
      add_rows_in_blocks(at[0] + offsets[0], at[1], rows, count, acc, parameters.bytes);
    };
    for_each_run(plan_.reduced, plan_.chunk_begin(chunk, chunks),
                 plan_.chunk_begin(chunk + 1, chunks), add);
    if (chunks == 1) fold_.store(at[1], dy, count, acc);
  }

  // Not one running sum over all rows: its rounding errors would grow with their number.
  void add_rows_in_blocks(std::int64_t x, std::int64_t y, std::int64_t rows, std::int64_t width,
                          void* acc, void* parameters) const {
    const std::int64_t row_step = plan_.reduced.inner_stride(0), step = plan_.kept.inner_stride(0);
    if (rows <= fold_block) return fold_.add_rows(x, row_step, rows, step, width, acc, parameters);
    for (std::int64_t r = 0; r < rows; r += fold_block) {
      Slots<ReducePlan::block> part;
      fold_.start(y, plan_.kept.inner_stride(1), width, part.bytes, parameters);
      fold_.add_rows(x + r * row_step, row_step, std::min(fold_block, rows - r), step, width,
                     part.bytes, parameters);
      fold_.join(acc, part.bytes, width);
    }
  }

  // ---- both ----

  // The accumulator of one chunk of a result; those of the results of a chunk are adjacent.
  std::byte* partial(std::int64_t chunk, std::int64_t result) {
    return partials_.bytes +
           static_cast<std::size_t>(chunk * plan_.results + result) * fold_.acc_bytes();
  }

  void store_partials(std::int64_t chunks) {
    for (std::int64_t c = 1; c < chunks; ++c)
      fold_.join(partial(0, 0), partial(c, 0), plan_.results);
    std::int64_t stored = 0;
    for_each_run(plan_.kept, 0, plan_.results, [&](const auto& offsets, std::int64_t count) {
      fold_.store(offsets[1], plan_.kept.inner_stride(1), count, partial(0, stored));
      stored += count;
    });
  }

  const ReducePlan plan_;
  const Fold& fold_;
  Slots<ReducePlan::max_partials>
      partials_;  // of each chunk of each result, when there are several
};

}  // namespace

void run_reduction(const View& x, const View& y, const Fold& fold) { Reduction(x, y, fold).run(); }

}  // namespace tapehead::kernels
