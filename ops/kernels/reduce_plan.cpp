#include <tapehead/ops/kernels/reduce_plan.h>

#include <algorithm>

namespace tapehead::kernels {
namespace {

// Dims by falling stride. A repeated dim (stride 0) stands outside: a run along it would be the
// same element again and again.
Dims sorted_by_stride(Dims dims, const Strides& strides) {
  std::stable_sort(dims.begin(), dims.end(), [&](std::int64_t a, std::int64_t b) {
    if ((strides[a] == 0) != (strides[b] == 0)) return strides[a] == 0;
    return strides[a] > strides[b];
  });
  return dims;
}

Dims pick(const Dims& values, const Dims& dims) {
  Dims picked;
  for (const std::int64_t dim : dims) picked.push_back(values[dim]);
  return picked;
}

}  // namespace

std::int64_t ReducePlan::chunks(std::int64_t width) const {
  const std::int64_t worth = elements * width / chunk_work;
  const std::int64_t affordable = max_partials / std::max<std::int64_t>(results, 1);
  return std::max<std::int64_t>(1, std::min(worth, affordable));
}

ReducePlan plan_reduction(const View& x, const View& y) {
  Dims kept, reduced;
  for (int i = 0; i < x.shape.rank(); ++i) (x.shape[i] == y.shape[i] ? kept : reduced).push_back(i);
  kept = sorted_by_stride(kept, x.strides);
  reduced = sorted_by_stride(reduced, x.strides);

  ReducePlan plan;
  const Strides kept_x = pick(x.strides, kept), kept_y = pick(y.strides, kept);
  const Strides reduced_x = pick(x.strides, reduced);
  plan.kept = merge_dims<2>(pick(x.shape, kept), {&kept_x, &kept_y});
  plan.reduced = merge_dims<1>(pick(x.shape, reduced), {&reduced_x});
  plan.results = numel(plan.kept.shape);
  plan.elements = numel(plan.reduced.shape);
  const std::int64_t along_results = plan.kept.inner_stride(0);
  const std::int64_t along_elements = plan.reduced.inner_stride(0);
  plan.side_by_side =
      plan.elements == 1 ||
      (along_results > 0 && (along_elements == 0 || along_results < along_elements));
  return plan;
}

}  // namespace tapehead::kernels
