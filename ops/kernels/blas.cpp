#include <tapehead/ops/kernels/blas.h>

#include <cblas.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>

// OpenBLAS's own; null when the program is linked with another BLAS.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int count);

namespace tapehead::kernels {
namespace {

// ---- one matrix as BLAS sees it -----------------------------------------------------------------

struct BlasLayout {
  bool transposed;                 // column-major, which row-major BLAS calls transposed
  std::int64_t leading_dimension;  // elements from row to row (or column to column)
};

// Row-major where both layouts fit.
std::optional<BlasLayout> blas_layout(std::int64_t rows, std::int64_t columns,
                                      std::int64_t row_step, std::int64_t column_step) {
  const bool one_row = rows <= 1, one_column = columns <= 1;
  if ((one_column || column_step == 1) && (one_row || row_step >= columns))
    return BlasLayout{false, one_row ? std::max<std::int64_t>(columns, 1) : row_step};
  if ((one_row || row_step == 1) && (one_column || column_step >= rows))
    return BlasLayout{true, one_column ? std::max<std::int64_t>(rows, 1) : column_step};
  return std::nullopt;
}

// ---- BLAS by element type -----------------------------------------------------------------------

CBLAS_TRANSPOSE flag(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

void blas_gemm(bool ta, bool tb, int m, int n, int k, float alpha, const float* a, int lda,
               const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, flag(ta), flag(tb), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void blas_gemm(bool ta, bool tb, int m, int n, int k, double alpha, const double* a, int lda,
               const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, flag(ta), flag(tb), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void blas_gemv(bool ta, int rows, int columns, float alpha, const float* a, int lda, const float* x,
               int dx, float beta, float* y, int dy) {
  cblas_sgemv(CblasRowMajor, flag(ta), rows, columns, alpha, a, lda, x, dx, beta, y, dy);
}
void blas_gemv(bool ta, int rows, int columns, double alpha, const double* a, int lda,
               const double* x, int dx, double beta, double* y, int dy) {
  cblas_dgemv(CblasRowMajor, flag(ta), rows, columns, alpha, a, lda, x, dx, beta, y, dy);
}
float blas_dot(int n, const float* x, int dx, const float* y, int dy) {
  return cblas_sdot(n, x, dx, y, dy);
}
double blas_dot(int n, const double* x, int dx, const double* y, int dy) {
  return cblas_ddot(n, x, dx, y, dy);
}

// ---- one product on one thread ------------------------------------------------------------------

// The step of a vector: BLAS rejects 0, which a vector of one element may have.
int vector_step(std::int64_t size, std::int64_t step) {
  return size <= 1 ? 1 : static_cast<int>(step);
}

template <class T>
void multiply_dot(const Product<T>& p) {
  const T dot = blas_dot(static_cast<int>(p.k), p.a.data, vector_step(p.k, p.a.column_step),
                         p.b.data, vector_step(p.k, p.b.row_step));
  *p.c.data = p.alpha * dot + (p.beta == T(0) ? T(0) : p.beta * *p.c.data);
}

// n = 1.
template <class T>
void multiply_vector(const Product<T>& p) {
  // Some BLAS multiply y by a beta of zero, which leaves a NaN where it is: zeros are added to.
  const bool adds = p.beta != T(0);
  if (!adds) scale(p);
  const BlasLayout a = *blas_layout(p.m, p.k, p.a.row_step, p.a.column_step);
  const auto m = static_cast<int>(p.m), k = static_cast<int>(p.k);
  blas_gemv(a.transposed, a.transposed ? k : m, a.transposed ? m : k, p.alpha, p.a.data,
            static_cast<int>(a.leading_dimension), p.b.data, vector_step(p.k, p.b.row_step),
            adds ? p.beta : T(1), p.c.data, vector_step(p.m, p.c.row_step));
}

template <class T>
void multiply_matrix(const Product<T>& p) {
  const BlasLayout c = *blas_layout(p.m, p.n, p.c.row_step, p.c.column_step);
  if (c.transposed) return multiply_matrix(p.transposed());
  const BlasLayout a = *blas_layout(p.m, p.k, p.a.row_step, p.a.column_step);
  const BlasLayout b = *blas_layout(p.k, p.n, p.b.row_step, p.b.column_step);
  gemm_tile<T>(a.transposed, b.transposed, p.m, p.n, p.k, p.alpha, p.a.data, a.leading_dimension,
               p.b.data, b.leading_dimension, p.beta, p.c.data, c.leading_dimension);
}

// Whether BLAS, which counts in 32 bits, cannot take a dim of this size with these steps.
bool is_too_long(std::int64_t size, std::int64_t step, std::int64_t other_step) {
  constexpr std::int64_t limit = std::numeric_limits<int>::max();
  return size > limit || (size > 1 && std::max(step, other_step) > limit);
}

template <class T>
void multiply_halves_of_rows(const Product<T>& p) {
  Product<T> first = p, second = p;
  first.m = p.m / 2;
  second.m = p.m - first.m;
  second.a = p.a.from(first.m, 0);
  second.c = p.c.from(first.m, 0);
  multiply(first);
  multiply(second);
}

template <class T>
void multiply_halves_of_inner(const Product<T>& p) {
  Product<T> first = p, second = p;
  first.k = p.k / 2;
  second.k = p.k - first.k;
  second.a = p.a.from(0, first.k);
  second.b = p.b.from(first.k, 0);
  second.beta = T(1);
  multiply(first);
  multiply(second);
}

}  // namespace

void make_blas_serial() {
  static const bool done = [] {
    if (openblas_set_num_threads && !std::getenv("TAPEHEAD_KEEP_BLAS_THREADS"))
      openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

bool fits_blas(std::int64_t rows, std::int64_t columns, std::int64_t row_step,
               std::int64_t column_step) {
  return blas_layout(rows, columns, row_step, column_step).has_value();
}

template <class T>
void scale(const Product<T>& p) {
  const bool is_column_major = p.c.row_step == 1;
  const Matrix<T> c = is_column_major ? p.c.transposed() : p.c;
  const std::int64_t runs = is_column_major ? p.n : p.m, length = is_column_major ? p.m : p.n;
  for (std::int64_t i = 0; i < runs; ++i) {
    T* run = c.from(i, 0).data;
    if (p.beta == T(0) && c.column_step == 1) std::fill_n(run, length, T(0));
    else
      for (std::int64_t j = 0; j < length; ++j) {
        T& element = run[j * c.column_step];
        element = p.beta == T(0) ? T(0) : p.beta * element;
      }
  }
}

template <class T>
void multiply(const Product<T>& p) {
  if (is_too_long(p.m, p.a.row_step, p.c.row_step)) return multiply_halves_of_rows(p);
  if (is_too_long(p.n, p.b.column_step, p.c.column_step))
    return multiply_halves_of_rows(p.transposed());
  if (is_too_long(p.k, p.a.column_step, p.b.row_step)) return multiply_halves_of_inner(p);
  if (p.m == 1 && p.n == 1) return multiply_dot(p);
  if (p.n == 1) return multiply_vector(p);
  if (p.m == 1) return multiply_vector(p.transposed());
  multiply_matrix(p);
}

template <class T>
void gemm_tile(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
               std::int64_t ldc) {
  make_blas_serial();
  blas_gemm(transpose_a, transpose_b, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k),
            alpha, a, static_cast<int>(lda), b, static_cast<int>(ldb), beta, c,
            static_cast<int>(ldc));
}

template void multiply(const Product<float>&);
template void multiply(const Product<double>&);
template void scale(const Product<float>&);
template void scale(const Product<double>&);
template void gemm_tile(bool, bool, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                        std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
template void gemm_tile(bool, bool, std::int64_t, std::int64_t, std::int64_t, double, const double*,
                        std::int64_t, const double*, std::int64_t, double, double*, std::int64_t);

}  // namespace tapehead::kernels
