// The driver of reductions: a fold F over the elements of each result, in one of two ways (see
// ReducePlan). F is a struct of
//   Acc, Parameter         types: of the accumulator, and of what each result may hand to its terms
//   identity               what does not change the accumulator it joins
//   term(x, parameter)     an element's part, of type Acc
//   join(a, b)             of two parts
//   parameter(p)           where the caller lists a parameter for each result: made ready for terms
// What depends on F and the dtypes stands in this header, the schedule in reduce_driver.cpp, where
// it is compiled once.
#pragma once

#include <tapehead/core/view.h>
#include <tapehead/ops/kernels/fold.h>
#include <tapehead/ops/kernels/run_reader.h>

#include <cstddef>

namespace tapehead::kernels {

static_assert(fold_block <= RunReader::block);

/// Fold of at least fold_lanes elements of one result, `step` apart.
template <class F, class T>
TAPEHEAD_MULTIVERSION typename F::Acc fold_many(const T* x, std::int64_t step, std::int64_t count,
                                                typename F::Parameter parameter) {
  using Acc = typename F::Acc;
  Acc total = F::identity;
  RunReader reader;
  reader.start(x, sizeof(T), step);
  for (std::int64_t begin = 0; begin < count; begin += fold_block) {
    const std::int64_t n = std::min(fold_block, count - begin);
    const T* block = static_cast<const T*>(reader.at(begin, n));
    const Acc part = fold_in_lanes<Acc>(
        n, F::identity,
        [=](std::int64_t i) __attribute__((always_inline)) { return F::term(block[i], parameter); },
        [](Acc a, Acc b) __attribute__((always_inline)) { return F::join(a, b); });
    total = F::join(total, part);
  }
  return total;
}

/// Fold of any number of elements of one result.
template <class F, class T>
typename F::Acc fold_elements(const T* x, std::int64_t step, std::int64_t count,
                              typename F::Parameter parameter) {
  if (count >= fold_lanes) return fold_many<F>(x, step, count, parameter);
  typename F::Acc total = F::identity;
  for (std::int64_t i = 0; i < count; ++i) total = F::join(total, F::term(x[i * step], parameter));
  return total;
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

/// The typed part of a reduction, as the schedule sees it. Elements of x and results in y are named
/// by their offsets; accumulators and parameters are arrays of the fold's own types.
class Fold {
 public:
  static constexpr std::size_t slot = 8;  ///< bytes of the largest accumulator or parameter

  explicit Fold(std::size_t acc_bytes) : acc_bytes_(acc_bytes) {}
  virtual ~Fold() = default;
  Fold(const Fold&) = delete;
  Fold& operator=(const Fold&) = delete;

  std::size_t acc_bytes() const { return acc_bytes_; }

  /// Accumulators and parameters of `count` results, `dy` apart from y on.
  virtual void start(std::int64_t y, std::int64_t dy, std::int64_t count, void* acc,
                     void* parameters) const = 0;
  /// Joins `count` elements of one result, from x on, to its accumulator.
  virtual void add_elements(std::int64_t x, std::int64_t step, std::int64_t count, void* acc,
                            const void* parameter) const = 0;
  /// Joins `rows` elements of each of `width` results, `step` apart from x on, to theirs.
  virtual void add_rows(std::int64_t x, std::int64_t row_step, std::int64_t rows, std::int64_t step,
                        std::int64_t width, void* acc, const void* parameters) const = 0;
  /// Joins `count` accumulators to as many others.
  virtual void join(void* acc, const void* part, std::int64_t count) const = 0;
  /// Writes `count` results, `dy` apart from y on.
  virtual void store(std::int64_t y, std::int64_t dy, std::int64_t count,
                     const void* acc) const = 0;
  /// All of the above for `results` results of one run of `count` elements each.
  virtual void reduce_runs(std::int64_t x, std::int64_t dx, std::int64_t y, std::int64_t dy,
                           std::int64_t results, std::int64_t step, std::int64_t count) const = 0;

 private:
  const std::size_t acc_bytes_;
};

template <class F, class T, class Y, class Finish>
class TypedFold final : public Fold {
 public:
  using Acc = typename F::Acc;
  using Parameter = typename F::Parameter;
  static_assert(sizeof(Acc) <= slot && sizeof(Parameter) <= slot);

  TypedFold(const View& x, const View& y, const Parameter* parameters, Finish finish)
      : Fold(sizeof(Acc)),
        x_(x.as<const T>()),
        y_(y.as<Y>()),
        parameters_(parameters),
        finish_(finish) {}

  void start(std::int64_t y, std::int64_t dy, std::int64_t count, void* acc,
             void* parameters) const override {
    for (std::int64_t j = 0; j < count; ++j) {
      static_cast<Acc*>(acc)[j] = F::identity;
      static_cast<Parameter*>(parameters)[j] = parameter(y + j * dy);
    }
  }
  void add_elements(std::int64_t x, std::int64_t step, std::int64_t count, void* acc,
                    const void* parameter) const override {
    Acc& total = *static_cast<Acc*>(acc);
    total = F::join(
        total, fold_elements<F>(x_ + x, step, count, *static_cast<const Parameter*>(parameter)));
  }
  void add_rows(std::int64_t x, std::int64_t row_step, std::int64_t rows, std::int64_t step,
                std::int64_t width, void* acc, const void* parameters) const override {
    const auto add = [&](const T* row, std::int64_t count) {
      fold_adjacent_rows<F>(row, row_step, count, width, static_cast<Acc*>(acc),
                            static_cast<const Parameter*>(parameters));
    };
    if (step == 1) return add(x_ + x, rows);
    RunReader row;
    for (std::int64_t r = 0; r < rows; ++r) {
      row.start(x_ + x + r * row_step, sizeof(T), step);
      add(static_cast<const T*>(row.at(0, width)), 1);
    }
  }
  void join(void* acc, const void* part, std::int64_t count) const override {
    Acc* into = static_cast<Acc*>(acc);
    for (std::int64_t j = 0; j < count; ++j)
      into[j] = F::join(into[j], static_cast<const Acc*>(part)[j]);
  }
  void store(std::int64_t y, std::int64_t dy, std::int64_t count, const void* acc) const override {
    for (std::int64_t j = 0; j < count; ++j) put(y + j * dy, static_cast<const Acc*>(acc)[j]);
  }
  void reduce_runs(std::int64_t x, std::int64_t dx, std::int64_t y, std::int64_t dy,
                   std::int64_t results, std::int64_t step, std::int64_t count) const override {
    for (std::int64_t k = 0; k < results; ++k) {
      const std::int64_t at = y + k * dy;
      put(at, fold_elements<F>(x_ + x + k * dx, step, count, parameter(at)));
    }
  }

 private:
  Parameter parameter(std::int64_t y) const {
    if constexpr (requires { &F::parameter; }) return F::parameter(parameters_[y]);
    else return {};
  }
  void put(std::int64_t y, Acc acc) const { y_[y] = static_cast<Y>(finish_(acc, parameter(y))); }

  const T* x_;
  Y* y_;
  const Parameter* parameters_;
  Finish finish_;
};

/// Folds the elements of each result; y has the rank of x and size 1 in the reduced dims.
void run_reduction(const View& x, const View& y, const Fold& fold);

/// y = finish(fold of F over the elements of each result, parameter). `parameters`, when given, has
/// the layout of y and is read before y's element is written, so it may be y's own buffer.
template <class F, class T, class Y, class Finish>
void reduce(const View& x, const View& y, const typename F::Parameter* parameters, Finish finish) {
  run_reduction(x, y, TypedFold<F, T, Y, Finish>(x, y, parameters, finish));
}

}  // namespace tapehead::kernels
