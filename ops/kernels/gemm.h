// Products of matrices, alone or in batches, on several threads: BLAS for one matrix on one thread,
// and the split around it. A large product is split over its rows (over its columns where there are
// few rows), a batch over its matrices.
//
// The same operands give the same bits for the same number of threads. Between different numbers
// the last bits may differ: BLAS rounds a row differently in products of different height.
#pragma once

#include <tapehead/core/view.h>

namespace tapehead::kernels {

/// Whether BLAS can take the matrices in the last two dims (rank >= 2) where they lie (fits_blas).
bool is_blas_layout(const Shape& shape, const Strides& strides);

/// c = alpha * a b + beta * c on the last two dims: a (..., m, k), b (..., k, n), c (..., m, n), of
/// one floating dtype, each with is_blas_layout, c apart from a and b. The leading dims of a and b
/// broadcast to those of c. A leading dim along which c does not move (stride 0) is summed over.
///
/// With beta = 0 c is not read. k = 0, and a sum over nothing, give beta * c. With alpha = 0 the
/// operands are not read either, so that their infinities and NaN do not show.
void gemm(double alpha, const View& a, const View& b, double beta, const View& c);

}  // namespace tapehead::kernels
