// BLAS, as the kernels see it: products of single matrices on the calling thread.
//
// BLAS runs on one thread and the kernels split the work, which is faster than BLAS's own split and
// does not fight with it. To that end OpenBLAS's thread count, a setting of the process, is put to
// 1 at the first product, unless the environment variable TAPEHEAD_KEEP_BLAS_THREADS is set.
// OpenBLAS built with OpenMP keeps that count for each thread, and forgets it when the program
// calls omp_set_num_threads(). Any other CBLAS works too, and is left as it is.
#pragma once

#include <cstdint>

namespace tapehead::kernels {

/// Puts OpenBLAS's thread count to 1, once in a process. Called before the first product, best on
/// the thread that will split it.
void make_blas_serial();

/// A matrix in memory: how far apart its rows and its columns are, in elements.
template <class T>
struct Matrix {
  T* data;
  std::int64_t row_step, column_step;

  Matrix transposed() const { return {data, column_step, row_step}; }
  Matrix from(std::int64_t row, std::int64_t column) const {
    return {data + row * row_step + column * column_step, row_step, column_step};
  }
};

/// Whether BLAS can take a matrix where it lies: one of the two steps is 1, and the other steps
/// over at least a whole row (or column). Dims of size 1 fit with any step.
bool fits_blas(std::int64_t rows, std::int64_t columns, std::int64_t row_step,
               std::int64_t column_step);

/// c = alpha * a b + beta * c; a is m x k, b k x n, c m x n. T: float or double.
template <class T>
struct Product {
  std::int64_t m, n, k;
  Matrix<const T> a, b;
  Matrix<T> c;
  T alpha, beta;

  /// The same product as c^T = b^T a^T.
  Product transposed() const {
    return {n, m, k, b.transposed(), a.transposed(), c.transposed(), alpha, beta};
  }
  bool fits_blas() const {
    return kernels::fits_blas(m, k, a.row_step, a.column_step) &&
           kernels::fits_blas(k, n, b.row_step, b.column_step) &&
           kernels::fits_blas(m, n, c.row_step, c.column_step);
  }
};

/// Computes the product; m, n, k > 0, and it fits BLAS. With beta = 0 c is not read. Sizes and
/// steps may pass 32 bits, in which BLAS counts.
template <class T>
void multiply(const Product<T>& product);

/// What is left of the product when nothing is summed: c = beta * c. With beta = 0 c is not read.
template <class T>
void scale(const Product<T>& product);

/// c = alpha * op(a) op(b) + beta * c for row-major matrices, as in CBLAS: op(a) is m x k and op(b)
/// k x n, transposed where the flag says so; ld: elements from row to row. For kernels that work on
/// tiles. T: float or double. Sizes fit in 31 bits.
template <class T>
void gemm_tile(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
               std::int64_t ldc);

}  // namespace tapehead::kernels
