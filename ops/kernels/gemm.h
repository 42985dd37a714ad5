// Matrix products: BLAS for one matrix on one thread, threads and batches of our own around it.
//
// A large product is split over its rows (or columns, where there are few rows), a batch over its
// matrices; BLAS itself runs on one thread, which is faster than its own split and does not fight
// with ours. To that end OpenBLAS's thread count, a setting of the process, is put to 1 at the first
// product, unless the environment variable TAPEHEAD_KEEP_BLAS_THREADS is set. OpenBLAS built with
// OpenMP keeps that count for each thread, and forgets it when the program calls
// omp_set_num_threads(). Any other CBLAS works too and is left as it is.
//
// The same operands give the same bits for the same number of threads. Between different numbers
// the last bits may differ: BLAS rounds a row differently in products of different height.
#pragma once

#include <tapehead/core/view.h>

namespace tapehead::kernels {

/// Whether BLAS can take the matrices in the last two dims (rank >= 2) where they lie: one of the
/// two strides is 1, and the other steps over at least a whole row (or column). Dims of size 1 fit
/// with any stride.
bool is_blas_layout(const Shape& shape, const Strides& strides);

/// c = alpha * a b + beta * c on the last two dims: a (..., m, k), b (..., k, n), c (..., m, n), of
/// one floating dtype, each with is_blas_layout, c apart from a and b. The leading dims of a and b
/// broadcast to those of c. A leading dim along which c does not move (stride 0) is summed over.
///
/// With beta = 0 c is not read. k = 0, and a sum over nothing, give beta * c. With alpha = 0 the
/// operands are not read either, so that their infinities and NaN do not show.
void gemm(double alpha, const View& a, const View& b, double beta, const View& c);

/// c = alpha * op(a) op(b) + beta * c for one row-major product on the calling thread, as in CBLAS:
/// op(a) is m x k and op(b) k x n, transposed where the flag says so; ld: elements from row to row.
/// For kernels with tiles and parallel loops of their own. T: float or double. Sizes fit in 31 bits.
template <class T>
void gemm_tile(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
               std::int64_t ldc);

}  // namespace tapehead::kernels
