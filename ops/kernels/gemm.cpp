#include <tapehead/ops/kernels/gemm.h>

#include <cblas.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

// OpenBLAS's own; null when the program is linked with another BLAS.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int count);

namespace tapehead::kernels {
namespace {

// Rows of a part are a multiple of this, so that BLAS's inner kernels see few odd edges.
constexpr std::int64_t block_rows = 16;
// Multiply-adds below which another thread does not pay: products of matrices, and of a matrix and
// a vector, which wait for memory instead.
constexpr std::int64_t matrix_grain = 128 * 1024;
constexpr std::int64_t vector_grain = 32 * 1024;

void make_blas_serial() {
  static const bool done = [] {
    if (openblas_set_num_threads && !std::getenv("TAPEHEAD_KEEP_BLAS_THREADS"))
      openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

// ---- one matrix as BLAS sees it ------------------------------------------------------------------

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

template <class T>
struct Matrix {
  T* data;
  std::int64_t row_step, column_step;

  Matrix transposed() const { return {data, column_step, row_step}; }
  Matrix from(std::int64_t row, std::int64_t column) const {
    return {data + row * row_step + column * column_step, row_step, column_step};
  }
};

// c = alpha * a b + beta * c; a is m x k, b k x n, c m x n.
template <class T>
struct Product {
  std::int64_t m, n, k;
  Matrix<const T> a, b;
  Matrix<T> c;
  T alpha, beta;

  // The same product as c^T = b^T a^T.
  Product transposed() const {
    return {n, m, k, b.transposed(), a.transposed(), c.transposed(), alpha, beta};
  }
  bool fits_blas() const {
    return blas_layout(m, k, a.row_step, a.column_step) &&
           blas_layout(k, n, b.row_step, b.column_step) &&
           blas_layout(m, n, c.row_step, c.column_step);
  }
};

// ---- BLAS by element type ------------------------------------------------------------------------

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

// ---- one product on one thread -------------------------------------------------------------------

// c *= beta, where zero overwrites whatever stands there.
template <class T>
void scale(const Product<T>& p) {
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      T& c = *p.c.from(i, j).data;
      c = p.beta == T(0) ? T(0) : p.beta * c;
    }
}

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
  // Some BLAS multiply y by a beta of zero, which leaves a NaN where it is.
  if (p.beta == T(0)) scale(p);
  const BlasLayout a = *blas_layout(p.m, p.k, p.a.row_step, p.a.column_step);
  const auto m = static_cast<int>(p.m), k = static_cast<int>(p.k);
  blas_gemv(a.transposed, a.transposed ? k : m, a.transposed ? m : k, p.alpha, p.a.data,
            static_cast<int>(a.leading_dimension), p.b.data, vector_step(p.k, p.b.row_step),
            p.beta, p.c.data, vector_step(p.m, p.c.row_step));
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
void multiply(const Product<T>& p);

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

// m, n, k > 0.
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

// ---- batches -------------------------------------------------------------------------------------

// A product for each index of `each`, whose strides move a, b and c; and for each of them the sum
// over the indices of `summed`, whose strides move a and b.
template <class T>
struct Batch {
  Product<T> product;
  StridedLoop<3> each;
  StridedLoop<2> summed;
};

template <class T>
Batch<T> batch_of(double alpha, const View& a, const View& b, double beta, const View& c) {
  const int leading = c.shape.rank() - 2;
  const auto rows_of = [](const View& v) { return v.strides[v.shape.rank() - 2]; };
  const auto columns_of = [](const View& v) { return v.strides.back(); };
  Shape a_shape = c.shape, b_shape = c.shape;
  a_shape[leading + 1] = b_shape[leading] = a.shape.back();
  const Strides a_strides = expanded_strides(a.shape, a.strides, a_shape);
  const Strides b_strides = expanded_strides(b.shape, b.strides, b_shape);
  Shape each, summed;
  std::array<Strides, 3> each_strides;
  std::array<Strides, 2> summed_strides;
  for (int i = 0; i < leading; ++i) {
    if (c.strides[i] == 0 && c.shape[i] != 1) {
      summed.push_back(c.shape[i]);
      summed_strides[0].push_back(a_strides[i]);
      summed_strides[1].push_back(b_strides[i]);
    } else {
      each.push_back(c.shape[i]);
      each_strides[0].push_back(a_strides[i]);
      each_strides[1].push_back(b_strides[i]);
      each_strides[2].push_back(c.strides[i]);
    }
  }
  return {{c.shape[leading], c.shape.back(), a.shape.back(),
           {a.as<const T>(), rows_of(a), columns_of(a)},
           {b.as<const T>(), rows_of(b), columns_of(b)},
           {c.as<T>(), rows_of(c), columns_of(c)},
           static_cast<T>(alpha), static_cast<T>(beta)},
          merge_dims<3>(each, {&each_strides[0], &each_strides[1], &each_strides[2]}),
          merge_dims<2>(summed, {&summed_strides[0], &summed_strides[1]})};
}

template <std::size_t N>
void drop_inner_dim(StridedLoop<N>& loop) {
  if (loop.shape.rank() == 1) {
    loop.shape[0] = 1;
    return;
  }
  loop.shape.erase(loop.shape.rank() - 1);
  for (Strides& strides : loop.strides) strides.erase(strides.rank() - 1);
}

// Matrices of a that share one b and follow each other are one tall matrix: (batch, m, k) times
// (k, n) is one product of batch * m rows. True when it was so.
template <class T>
bool fold_batch_into_rows(Batch<T>& batch) {
  const Product<T>& p = batch.product;
  const std::int64_t size = batch.each.shape.back();
  const std::int64_t a_step = batch.each.inner_stride(0), c_step = batch.each.inner_stride(2);
  if (size == 1 || batch.each.inner_stride(1) != 0) return false;
  if (p.m != 1 && (a_step != p.m * p.a.row_step || c_step != p.m * p.c.row_step)) return false;
  Product<T> folded = p;
  folded.m = size * p.m;
  if (p.m == 1) {
    folded.a.row_step = a_step;
    folded.c.row_step = c_step;
  }
  if (!folded.fits_blas()) return false;
  batch.product = folded;
  drop_inner_dim(batch.each);
  return true;
}

// A sum of products whose matrices follow each other is one product with a longer inner dim: the
// sum of a_i b_i is (a_1 a_2 ...) (b_1 b_2 ...)^T. This is the gradient of a shared weight.
template <class T>
bool fold_sum_into_inner(Batch<T>& batch) {
  const Product<T>& p = batch.product;
  const std::int64_t size = batch.summed.shape.back();
  const std::int64_t a_step = batch.summed.inner_stride(0), b_step = batch.summed.inner_stride(1);
  if (size == 1) return false;
  if (p.k != 1 && (a_step != p.k * p.a.column_step || b_step != p.k * p.b.row_step)) return false;
  Product<T> folded = p;
  folded.k = size * p.k;
  if (p.k == 1) {
    folded.a.column_step = a_step;
    folded.b.row_step = b_step;
  }
  if (!folded.fits_blas()) return false;
  batch.product = folded;
  drop_inner_dim(batch.summed);
  return true;
}

template <class T>
Batch<T> transposed(const Batch<T>& batch) {
  Batch<T> result = batch;
  result.product = batch.product.transposed();
  std::swap(result.each.strides[0], result.each.strides[1]);
  std::swap(result.summed.strides[0], result.summed.strides[1]);
  return result;
}

template <std::size_t N>
std::array<std::int64_t, N> offsets_of(const StridedLoop<N>& loop, std::int64_t index) {
  std::array<std::int64_t, N> offsets{};
  for (int i = loop.shape.rank() - 1; i >= 0; --i) {
    const std::int64_t position = index % loop.shape[i];
    index /= loop.shape[i];
    for (std::size_t operand = 0; operand < N; ++operand)
      offsets[operand] += position * loop.strides[operand][i];
  }
  return offsets;
}

// Rows [begin, end) of the product at `index` of the batch, with its sum.
template <class T>
void multiply_rows(const Batch<T>& batch, std::int64_t index, std::int64_t begin,
                   std::int64_t end) {
  const auto [a_offset, b_offset, c_offset] = offsets_of(batch.each, index);
  Product<T> part = batch.product;
  part.m = end - begin;
  part.a = part.a.from(begin, 0);
  part.c = part.c.from(begin, 0);
  part.a.data += a_offset;
  part.b.data += b_offset;
  part.c.data += c_offset;
  const std::int64_t terms = part.k == 0 ? 0 : numel(batch.summed.shape);
  if (terms == 0) return scale(part);
  for_each_run(batch.summed, 0, terms, [&](const auto& offsets, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      Product<T> term = part;
      term.a.data += offsets[0] + i * batch.summed.inner_stride(0);
      term.b.data += offsets[1] + i * batch.summed.inner_stride(1);
      multiply(term);
      part.beta = T(1);
    }
  });
}

template <class T>
void multiply_batch(const Batch<T>& batch) {
  const Product<T>& p = batch.product;
  const std::int64_t blocks = (p.m + block_rows - 1) / block_rows;
  const std::int64_t work = std::min(p.m, block_rows) * p.n * p.k * numel(batch.summed.shape);
  const std::int64_t wanted = p.n == 1 || p.m == 1 ? vector_grain : matrix_grain;
  const std::int64_t grain = 1 + (wanted - 1) / std::max<std::int64_t>(work, 1);
  // Units of work: the row blocks of all matrices, so that a thread's range may begin and end
  // within a matrix and all threads get the same share.
  parallel_for(numel(batch.each.shape) * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t index = begin / blocks, block = begin % blocks;
      const std::int64_t last = std::min(blocks, block + end - begin);
      multiply_rows(batch, index, block * block_rows, std::min(p.m, last * block_rows));
      begin += last - block;
    }
  });
}

// Whether rows are too few to keep all threads busy, and columns are more.
template <class T>
bool should_split_columns(const Batch<T>& batch) {
  const Product<T>& p = batch.product;
  const std::int64_t row_blocks = numel(batch.each.shape) * ((p.m + block_rows - 1) / block_rows);
  return p.n > p.m && row_blocks < 4 * num_threads();
}

template <class T>
void gemm_as(double alpha, const View& a, const View& b, double beta, const View& c) {
  Batch<T> batch = batch_of<T>(alpha, a, b, beta, c);
  if (batch.product.m == 0 || batch.product.n == 0 || numel(batch.each.shape) == 0) return;
  while (fold_batch_into_rows(batch)) {
  }
  while (fold_sum_into_inner(batch)) {
  }
  multiply_batch(should_split_columns(batch) ? transposed(batch) : batch);
}

}  // namespace

bool is_blas_layout(const Shape& shape, const Strides& strides) {
  const int rank = shape.rank();
  return blas_layout(shape[rank - 2], shape[rank - 1], strides[rank - 2], strides[rank - 1])
      .has_value();
}

void gemm(double alpha, const View& a, const View& b, double beta, const View& c) {
  make_blas_serial();
  visit_floating(c.dtype, [&](auto zero) { gemm_as<decltype(zero)>(alpha, a, b, beta, c); });
}

template <class T>
void gemm_tile(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
               std::int64_t ldc) {
  make_blas_serial();
  blas_gemm(transpose_a, transpose_b, static_cast<int>(m), static_cast<int>(n),
            static_cast<int>(k), alpha, a, static_cast<int>(lda), b, static_cast<int>(ldb), beta,
            c, static_cast<int>(ldc));
}

template void gemm_tile(bool, bool, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                        std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
template void gemm_tile(bool, bool, std::int64_t, std::int64_t, std::int64_t, double,
                        const double*, std::int64_t, const double*, std::int64_t, double, double*,
                        std::int64_t);

}  // namespace tapehead::kernels
