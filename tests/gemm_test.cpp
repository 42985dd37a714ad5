// The kernel below matmul and linear, against a plain sum of products.
#include <tapehead/ops/kernels/gemm.h>

#include <doctest/doctest.h>

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace tapehead;

namespace {

std::mt19937 engine(2024);  // the same draws on every platform

std::int64_t draw(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
}

bool one_in(std::int64_t n) { return draw(1, n) == 1; }

template <class T>
struct Buffer {
  std::vector<T> values;
  View view;

  void fill(T value) { values.assign(values.size(), value); }
  void fill_randomly() {
    for (T& value : values) value = static_cast<T>(draw(-1000, 1000)) / T(1000);
  }
};

// Memory for `shape` in a layout that BLAS takes, otherwise of any kind: row- or column-major, the
// leading dims in any order, with gaps; repeated (stride 0) along the leading dims in `repeated`.
template <class T>
Buffer<T> random_layout(const Shape& shape, const std::vector<bool>& repeated) {
  const int rank = shape.rank();
  const int inner = one_in(2) ? rank - 1 : rank - 2;
  std::vector<int> outer;
  for (int i = 0; i < rank; ++i)
    if (i != inner) outer.push_back(i);
  if (one_in(2)) std::shuffle(outer.begin(), outer.end(), engine);
  Strides strides(rank, 0);
  strides[inner] = 1;
  std::int64_t step = std::max<std::int64_t>(shape[inner], 1) + (one_in(2) ? draw(0, 3) : 0);
  for (const int dim : outer) {
    if (dim < rank - 2 && repeated[static_cast<std::size_t>(dim)]) continue;
    strides[dim] = step;
    step = step * std::max<std::int64_t>(shape[dim], 1) + (one_in(3) ? draw(0, 5) : 0);
  }
  Buffer<T> buffer;
  buffer.values.resize(static_cast<std::size_t>(step));
  buffer.view = {buffer.values.data(), dtype_of<T>, shape, strides};
  return buffer;
}

std::int64_t offset_of(const Strides& strides, const Shape& shape, std::int64_t index) {
  std::int64_t offset = 0;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    offset += index % shape[i] * strides[i];
    index /= shape[i];
  }
  return offset;
}

// What every element of c's memory must be: beta times its value, once, plus all products that fall
// on it; outside of c's elements what was there.
template <class T>
std::vector<double> expected(double alpha, const View& a, const View& b, double beta,
                             const Buffer<T>& c) {
  std::vector<double> result(c.values.begin(), c.values.end());
  const int leading = c.view.shape.rank() - 2;
  const std::int64_t m = c.view.shape[leading], n = c.view.shape.back(), k = a.shape.back();
  Shape batch, once, a_shape = c.view.shape, b_shape = c.view.shape;
  for (int i = 0; i < leading; ++i) {
    batch.push_back(c.view.shape[i]);
    once.push_back(c.view.strides[i] == 0 ? 1 : c.view.shape[i]);
  }
  a_shape[leading + 1] = b_shape[leading] = k;
  const Strides as = expanded_strides(a.shape, a.strides, a_shape);
  const Strides bs = expanded_strides(b.shape, b.strides, b_shape);
  const auto element = [&](std::int64_t offset, std::int64_t i, std::int64_t j) -> double& {
    return result[static_cast<std::size_t>(offset + i * c.view.strides[leading] +
                                           j * c.view.strides[leading + 1])];
  };
  for (std::int64_t t = 0; t < numel(once) * m * n; ++t) {
    double& value = element(offset_of(c.view.strides, once, t / (m * n)), t / n % m, t % n);
    value = beta == 0 ? 0 : beta * value;
  }
  for (std::int64_t t = 0; t < numel(batch) * m * n; ++t) {
    const std::int64_t i = t / n % m, j = t % n, index = t / (m * n);
    const T* row = a.as<const T>() + offset_of(as, batch, index) + i * as[leading];
    const T* column = b.as<const T>() + offset_of(bs, batch, index) + j * bs[leading + 1];
    double sum = 0;
    for (std::int64_t p = 0; p < k; ++p)
      sum += static_cast<double>(row[p * as[leading + 1]]) *
             static_cast<double>(column[p * bs[leading]]);
    element(offset_of(c.view.strides, batch, index), i, j) += alpha * sum;
  }
  return result;
}

struct Problem {
  Shape a, b, c;
  std::vector<bool> a_repeats, b_repeats, c_repeats;
};

Problem random_problem(std::int64_t largest) {
  Problem p;
  for (std::int64_t i = draw(0, 3); i > 0; --i) {
    const std::int64_t size = one_in(20) ? 0 : draw(1, 4);
    p.c.push_back(size);
    p.a_repeats.push_back(one_in(4));
    p.b_repeats.push_back(one_in(3));
    p.c_repeats.push_back(one_in(4));
    p.a.push_back(p.a_repeats.back() && one_in(2) ? 1 : size);
    p.b.push_back(p.b_repeats.back() && one_in(2) ? 1 : size);
  }
  const auto size = [&] { return one_in(8) ? draw(0, 1) : draw(1, largest); };
  const std::int64_t m = size(), n = size(), k = size();
  p.a.push_back(m), p.a.push_back(k);
  p.b.push_back(k), p.b.push_back(n);
  p.c.push_back(m), p.c.push_back(n);
  return p;
}

template <class T>
void check_random_problems(int count, std::int64_t largest, double tolerance) {
  for (int run = 0; run < count; ++run) {
    const Problem p = random_problem(largest);
    Buffer<T> a = random_layout<T>(p.a, p.a_repeats), b = random_layout<T>(p.b, p.b_repeats);
    Buffer<T> c = random_layout<T>(p.c, p.c_repeats);
    a.fill_randomly();
    b.fill_randomly();
    const double alpha = one_in(2) ? 1 : -0.5, beta = one_in(3) ? 0 : one_in(2) ? 1 : 0.25;
    if (beta == 0) c.fill(std::numeric_limits<T>::quiet_NaN());
    else c.fill_randomly();
    const std::vector<double> want = expected(alpha, a.view, b.view, beta, c);
    const ThreadBudget threads(static_cast<int>(draw(1, 4)));
    kernels::gemm(alpha, a.view, b.view, beta, c.view);
    bool right = true;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double got = static_cast<double>(c.values[i]);
      right =
          right && (std::isnan(want[i]) ? std::isnan(got) : std::abs(got - want[i]) <= tolerance);
    }
    CHECK_MESSAGE(right, "a ", to_string(p.a), " ", to_string(a.view.strides), ", b ",
                  to_string(p.b), " ", to_string(b.view.strides), ", c ", to_string(p.c), " ",
                  to_string(c.view.strides), ", alpha ", alpha, ", beta ", beta);
  }
}

// Address space without memory behind it until it is touched.
class AddressSpace {
 public:
  explicit AddressSpace(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~AddressSpace() {
    if (*this) munmap(data_, bytes_);
  }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  explicit operator bool() const { return data_ != MAP_FAILED; }
  float* data() const { return static_cast<float*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

}  // namespace

// Values are at most 1, inner sizes at most 4^3 * 40 with a folded sum: an error of 64 roundings in
// f64, and of 64 in f32, of a sum that stays below 300.
TEST_CASE(
    "gemm is the sum of products for any layout, batch, sum over a batch, alpha, beta and "
    "threads") {
  check_random_problems<double>(1500, 20, 300 * 64 * 0x1p-53);
  check_random_problems<float>(1500, 20, 300 * 64 * 0x1p-24);
  check_random_problems<double>(30, 70, 300 * 64 * 0x1p-53);
  check_random_problems<float>(30, 70, 300 * 64 * 0x1p-24);
}

TEST_CASE("gemm gives the same bits again for the same number of threads") {
  const Shape shape{3, 130, 130};
  Buffer<float> a = random_layout<float>(shape, {false}), b = random_layout<float>(shape, {false});
  a.fill_randomly();
  b.fill_randomly();
  for (int count = 1; count <= 3; ++count) {
    const ThreadBudget threads(count);
    std::vector<float> first(3 * 130 * 130), second(first.size());
    View c{first.data(), DType::f32, shape, contiguous_strides(shape)};
    kernels::gemm(0.3, a.view, b.view, 0, c);
    c.data = second.data();
    kernels::gemm(0.3, a.view, b.view, 0, c);
    CHECK(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("gemm takes steps that do not fit in BLAS's 32 bits") {
  const std::int64_t step = (std::int64_t{1} << 31) + 64;
  const AddressSpace space(static_cast<std::size_t>(step) * 3 * sizeof(float));
  if (!space) {
    MESSAGE("skipped: no address space of 24 GiB");
    return;
  }
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 4; ++j)
      space.data()[i * step + j] = static_cast<float>(i + 10 * j);
  std::vector<float> ones(12, 1), y(16, std::numeric_limits<float>::quiet_NaN());
  const View rows{space.data(), DType::f32, {3, 4}, {step, 1}};
  const View columns{space.data(), DType::f32, {4, 3}, {1, step}};
  const View four_ones{ones.data(), DType::f32, {4, 2}, {2, 1}};
  const View three_ones{ones.data(), DType::f32, {3, 2}, {2, 1}};

  kernels::gemm(1, rows, four_ones, 0, {y.data(), DType::f32, {3, 2}, {2, 1}});
  CHECK(std::vector<float>(y.begin(), y.begin() + 6) == std::vector<float>{60, 60, 64, 64, 68, 68});
  kernels::gemm(1, columns, three_ones, 0, {y.data(), DType::f32, {4, 2}, {2, 1}});
  CHECK(std::vector<float>(y.begin(), y.begin() + 8) ==
        std::vector<float>{3, 3, 33, 33, 63, 63, 93, 93});
  kernels::gemm(1, {ones.data(), DType::f32, {2, 3}, {3, 1}}, rows, 0,
                {y.data(), DType::f32, {2, 4}, {4, 1}});
  CHECK(std::vector<float>(y.begin(), y.begin() + 8) ==
        std::vector<float>{3, 33, 63, 93, 3, 33, 63, 93});
  kernels::gemm(1, {ones.data(), DType::f32, {2, 4}, {4, 1}}, columns, 0,
                {y.data(), DType::f32, {2, 3}, {3, 1}});
  CHECK(std::vector<float>(y.begin(), y.begin() + 6) == std::vector<float>{60, 64, 68, 60, 64, 68});
}

TEST_CASE("BLAS takes layouts with one step of 1 and another that spans a row, and no others") {
  const auto takes = [](const Shape& shape, const Strides& strides) {
    return kernels::is_blas_layout(shape, strides);
  };
  CHECK(takes({3, 4}, {4, 1}));
  CHECK(takes({3, 4}, {9, 1}));
  CHECK(takes({3, 4}, {1, 3}));
  CHECK(takes({2, 3, 4}, {0, 64, 1}));
  CHECK(takes({1, 4}, {0, 1}));
  CHECK(takes({1, 4}, {0, 7}));
  CHECK(takes({4, 1}, {7, 0}));
  CHECK(takes({1, 1}, {0, 0}));
  CHECK(takes({0, 4}, {4, 1}));
  CHECK_FALSE(takes({3, 4}, {0, 1}));
  CHECK_FALSE(takes({3, 4}, {1, 0}));
  CHECK_FALSE(takes({3, 4}, {3, 1}));
  CHECK_FALSE(takes({3, 4}, {8, 2}));
  CHECK_FALSE(takes({1, 4}, {4, 0}));
}
