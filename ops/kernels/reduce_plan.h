// How a reduction walks its operand: which results are computed side by side, and how the elements
// of one result are cut into chunks. The cut depends on sizes and strides only, never on the number
// of threads, so neither does any result.
#pragma once

#include <tapehead/core/view.h>

#include <cstdint>

namespace tapehead::kernels {

struct ReducePlan {
  StridedLoop<2> kept;     ///< over the results: operand 0 is x, operand 1 is y
  StridedLoop<1> reduced;  ///< over the elements of one result, in x
  std::int64_t results = 0;
  std::int64_t elements = 0;  ///< of one result
  /// Neighbouring results are nearer to each other in x than neighbouring elements of one result:
  /// go along rows of results, `block` at a time, not along the elements.
  bool side_by_side = false;

  static constexpr std::int64_t block = 256;         ///< results of one task, side by side
  static constexpr std::int64_t chunk_work = 32768;  ///< least elements of one chunk
  static constexpr std::int64_t max_partials = 2048;

  /// Number of parts that the elements of a result are cut into, when `width` results are computed
  /// at once: 1, or so many that results * chunks <= max_partials.
  std::int64_t chunks(std::int64_t width) const;
  std::int64_t chunk_begin(std::int64_t chunk, std::int64_t of) const {
    return elements * chunk / of;
  }
};

/// `y` has the rank of `x` and size 1 in the reduced dims. The elements of a result may be taken in
/// any order, so dims are sorted by stride and transposed operands read as fast as others.
ReducePlan plan_reduction(const View& x, const View& y);

}  // namespace tapehead::kernels
