// The driver of reductions: a fold F over the elements of each result, in one of two ways (see
// ReducePlan). F is a struct of
//   Acc, Parameter         types: of the accumulator, and of what each result may hand to its terms
//   identity               what does not change the accumulator it joins
//   term(x, parameter)     an element's part, of type Acc
//   join(a, b)             of two parts
//   parameter(p)           where the caller lists a parameter for each result: made ready for terms
#pragma once

#include <tapehead/ops/kernels/fold.h>
#include <tapehead/ops/kernels/reduce_plan.h>

namespace tapehead::kernels {

inline constexpr std::int64_t reduce_grain = 32768;  // elements

/// Fold of `count` adjacent elements of one result.
template <class F, class T>
TAPEHEAD_MULTIVERSION typename F::Acc fold_adjacent(const T* x, std::int64_t count,
                                                    typename F::Parameter parameter) {
  using Acc = typename F::Acc;
  return fold_run<Acc, Acc>(
      count, F::identity,
      [=](std::int64_t i) __attribute__((always_inline)) { return F::term(x[i], parameter); },
      [](Acc a, Acc b) __attribute__((always_inline)) { return F::join(a, b); });
}

/// Fold of `count` elements of one result, `step` apart.
template <class F, class T>
typename F::Acc fold_elements(const T* x, std::int64_t step, std::int64_t count,
                              typename F::Parameter parameter) {
  using Acc = typename F::Acc;
  if (step == 1 && count >= fold_lanes) return fold_adjacent<F>(x, count, parameter);
  return fold_run<Acc, Acc>(
      count, F::identity, [=](std::int64_t i) { return F::term(x[i * step], parameter); },
      [](Acc a, Acc b) { return F::join(a, b); });
}

/// Joins `rows` rows of `width` adjacent elements to the accumulators of their columns.
template <class F, class T>
TAPEHEAD_MULTIVERSION void fold_adjacent_rows(const T* x, std::int64_t row_step, std::int64_t rows,
                                              std::int64_t width, typename F::Acc* acc,
                                              const typename F::Parameter* parameter) {
  // Four rows at once: the accumulators are read and written a quarter as often.
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T *a = x + r * row_step, *b = a + row_step, *c = b + row_step, *d = c + row_step;
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) {
      const auto p = parameter[j];
      acc[j] = F::join(acc[j], F::join(F::join(F::term(a[j], p), F::term(b[j], p)),
                                       F::join(F::term(c[j], p), F::term(d[j], p))));
    }
  }
  for (; r < rows; ++r) {
    const T* row = x + r * row_step;
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j)
      acc[j] = F::join(acc[j], F::term(row[j], parameter[j]));
  }
}

/// The same for elements `step` apart.
template <class F, class T>
void fold_rows(const T* x, std::int64_t row_step, std::int64_t rows, std::int64_t step,
               std::int64_t width, typename F::Acc* acc, const typename F::Parameter* parameter) {
  if (step == 1) return fold_adjacent_rows<F>(x, row_step, rows, width, acc, parameter);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < width; ++j)
      acc[j] = F::join(acc[j], F::term(x[r * row_step + j * step], parameter[j]));
}

template <class F, class T, class Y, class Finish>
class Reduction {
 public:
  using Acc = typename F::Acc;
  using Parameter = typename F::Parameter;

  Reduction(const View& x, const View& y, const Parameter* parameters, Finish finish)
      : plan_(plan_reduction(x, y)),
        x_(x.as<const T>()),
        y_(y.as<Y>()),
        parameters_(parameters),
        finish_(finish) {}

  void run() {
    if (plan_.side_by_side) run_side_by_side();
    else run_one_by_one();
  }

 private:
  Parameter parameter(std::int64_t y_offset) const {
    if constexpr (requires { &F::parameter; }) return F::parameter(parameters_[y_offset]);
    else return {};
  }
  void store(std::int64_t y_offset, Acc acc) {
    y_[y_offset] = static_cast<Y>(finish_(acc, parameter(y_offset)));
  }

  // ---- one result after the other, along its elements ----

  Acc fold_range(std::int64_t x_offset, Parameter p, std::int64_t begin, std::int64_t end) const {
    Acc acc = F::identity;
    for_each_run(plan_.reduced, begin, end, [&](const auto& offsets, std::int64_t count) {
      acc = F::join(acc, fold_elements<F>(x_ + x_offset + offsets[0], plan_.reduced.inner_stride(0),
                                          count, p));
    });
    return acc;
  }

  void run_one_by_one() {
    const std::int64_t chunks = plan_.chunks(1);
    if (chunks == 1) return run_whole_results();
    Acc partials[ReducePlan::max_partials];
    const auto run_tasks = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t chunk = task % chunks;
        const Place at = place(task / chunks);
        partials[task] = fold_range(at.x, parameter(at.y), plan_.chunk_begin(chunk, chunks),
                                    plan_.chunk_begin(chunk + 1, chunks));
      }
    };
    parallel_for(plan_.results * chunks, 1, run_tasks);
    store_partials(partials, chunks);
  }

  void run_whole_results() {
    const std::int64_t n = plan_.elements, step = plan_.reduced.inner_stride(0);
    const std::int64_t dx = plan_.kept.inner_stride(0), dy = plan_.kept.inner_stride(1);
    const bool one_run = plan_.reduced.shape.rank() == 1;
    const auto run_results = [&](const auto& offsets, std::int64_t count) {
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t at_x = offsets[0] + k * dx, at_y = offsets[1] + k * dy;
        const Parameter p = parameter(at_y);
        store(at_y, one_run ? fold_elements<F>(x_ + at_x, step, n, p) : fold_range(at_x, p, 0, n));
      }
    };
    parallel_runs(plan_.kept, reduce_grain / std::max<std::int64_t>(n, 1) + 1, run_results);
  }

  // ---- results side by side, along rows of them ----

  void run_side_by_side() {
    const std::int64_t row = plan_.kept.shape.back();
    const std::int64_t blocks = (row + ReducePlan::block - 1) / ReducePlan::block;
    const std::int64_t width = std::min(row, ReducePlan::block);
    const std::int64_t chunks = plan_.chunks(width);
    Acc partials[ReducePlan::max_partials];
    const auto run_tasks = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t unit = task / chunks, column = unit % blocks * ReducePlan::block;
        fold_block_of_results(unit / blocks * row + column,
                              std::min(ReducePlan::block, row - column), task % chunks, chunks,
                              partials);
      }
    };
    const std::int64_t tasks = row == 0 ? 0 : plan_.results / row * blocks * chunks;
    const std::int64_t task_work = plan_.elements * width / chunks;
    parallel_for(tasks, reduce_grain / std::max<std::int64_t>(task_work, 1) + 1, run_tasks);
    if (chunks > 1) store_partials(partials, chunks);
  }

  // Results [first, first + count), side by side in x, over one chunk of their elements.
  void fold_block_of_results(std::int64_t first, std::int64_t count, std::int64_t chunk,
                             std::int64_t chunks, Acc* partials) {
    const Place at = place(first);
    const std::int64_t dy = plan_.kept.inner_stride(1);
    Acc acc[ReducePlan::block];
    Parameter p[ReducePlan::block];
    for (std::int64_t j = 0; j < count; ++j) {
      acc[j] = F::identity;
      p[j] = parameter(at.y + j * dy);
    }
    const auto fold = [&](const auto& offsets, std::int64_t rows) {
      fold_rows_in_blocks(x_ + at.x + offsets[0], rows, count, acc, p);
    };
    for_each_run(plan_.reduced, plan_.chunk_begin(chunk, chunks),
                 plan_.chunk_begin(chunk + 1, chunks), fold);
    for (std::int64_t j = 0; j < count; ++j) {
      if (chunks > 1) partials[(first + j) * chunks + chunk] = acc[j];
      else store(at.y + j * dy, acc[j]);
    }
  }

  // Not one running sum over all rows: its rounding errors would grow with their number.
  void fold_rows_in_blocks(const T* x, std::int64_t rows, std::int64_t width, Acc* acc,
                           const Parameter* p) const {
    const std::int64_t row_step = plan_.reduced.inner_stride(0), step = plan_.kept.inner_stride(0);
    if (rows <= fold_block) return fold_rows<F>(x, row_step, rows, step, width, acc, p);
    for (std::int64_t r = 0; r < rows; r += fold_block) {
      Acc part[ReducePlan::block];
      std::fill(part, part + width, F::identity);
      fold_rows<F>(x + r * row_step, row_step, std::min(fold_block, rows - r), step, width, part,
                   p);
      for (std::int64_t j = 0; j < width; ++j) acc[j] = F::join(acc[j], part[j]);
    }
  }

  // ---- both ----

  struct Place {
    std::int64_t x, y;
  };
  Place place(std::int64_t result) const {
    Place at{};
    for_each_run(plan_.kept, result, result + 1, [&](const auto& offsets, std::int64_t) {
      at = {offsets[0], offsets[1]};
    });
    return at;
  }

  void store_partials(const Acc* partials, std::int64_t chunks) {
    for (std::int64_t k = 0; k < plan_.results; ++k) {
      Acc acc = F::identity;
      for (std::int64_t c = 0; c < chunks; ++c) acc = F::join(acc, partials[k * chunks + c]);
      store(place(k).y, acc);
    }
  }

  ReducePlan plan_;
  const T* x_;
  Y* y_;
  const Parameter* parameters_;
  Finish finish_;
};

/// y = finish(fold of F over the elements of each result, parameter). `parameters`, when given, has
/// the layout of y and is read before y's element is written, so it may be y's own buffer.
template <class F, class T, class Y, class Finish>
void reduce(const View& x, const View& y, const typename F::Parameter* parameters, Finish finish) {
  Reduction<F, T, Y, Finish>(x, y, parameters, finish).run();
}

}  // namespace tapehead::kernels
