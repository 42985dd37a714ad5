#include <tapehead/ops/kernels/blas.h>
#include <tapehead/ops/kernels/gemm.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tapehead::kernels {
namespace {

// Rows of a part are a multiple of this, so that BLAS's inner kernels see few odd edges.
constexpr std::int64_t block_rows = 16;
// Multiply-adds below which another thread does not pay: products of matrices, and of a matrix and
// a vector, which wait for memory instead.
constexpr std::int64_t matrix_grain = std::int64_t{128} << 10;
constexpr std::int64_t vector_grain = std::int64_t{32} << 10;

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
  return {{c.shape[leading],
           c.shape.back(),
           a.shape.back(),
           {a.as<const T>(), rows_of(a), columns_of(a)},
           {b.as<const T>(), rows_of(b), columns_of(b)},
           {c.as<T>(), rows_of(c), columns_of(c)},
           static_cast<T>(alpha),
           static_cast<T>(beta)},
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

// Rows [begin, end) of the product at `index` of the batch, with its sum.
template <class T>
void multiply_rows(const Batch<T>& batch, std::int64_t index, std::int64_t begin,
                   std::int64_t end) {
  const auto [a_offset, b_offset, c_offset] = offsets_at(batch.each, index);
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
  return p.n > p.m && row_blocks < std::int64_t{4} * num_threads();
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
  return fits_blas(shape[rank - 2], shape[rank - 1], strides[rank - 2], strides[rank - 1]);
}

void gemm(double alpha, const View& a, const View& b, double beta, const View& c) {
  make_blas_serial();
  visit_floating(c.dtype, [&](auto zero) { gemm_as<decltype(zero)>(alpha, a, b, beta, c); });
}

}  // namespace tapehead::kernels
