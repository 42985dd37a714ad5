// Normalisation of rows of n adjacent elements: xhat = (x - mean) * rstd with
// rstd = 1 / sqrt(mean((x - mean)^2) + eps), y = xhat * weight + bias. Without centering the mean
// stays out (rms norm). All tensors are row-major and of one floating dtype; weight and bias may be
// null.
#pragma once

#include <tapehead/core/view.h>

namespace tapehead::kernels {

struct NormForward {
  const void *x, *weight, *bias;
  void *y, *mean, *rstd;  ///< mean, rstd: one element a row; mean is null without centering
  std::int64_t rows, n;
  double eps;
};

/// y may be x.
void norm_forward(DType dtype, const NormForward& args);

struct NormBackward {
  const void *g, *x, *mean, *rstd, *weight;
  void* dx;                 ///< may be g or null
  double *dweight, *dbias;  ///< partial sums, norm_chunks(rows) rows of n each, or null
  std::int64_t rows, n;
};

/// The mean is refined from x where its rounding matters. With u = g * weight: dx = rstd * (u -
/// mean(u) - xhat * mean(u * xhat)), without the term mean(u) when there is no centering; dweight =
/// sum of g * xhat and dbias = sum of g over the rows of each chunk.
void norm_backward(DType dtype, const NormBackward& args);

/// Number of chunks that the rows are cut into for the sums over rows: by the number of rows alone,
/// so that sums do not depend on the number of threads.
std::int64_t norm_chunks(std::int64_t rows);

}  // namespace tapehead::kernels
