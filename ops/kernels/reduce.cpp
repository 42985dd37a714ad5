#include <tapehead/ops/kernels/math.h>
#include <tapehead/ops/kernels/reduce.h>
#include <tapehead/ops/kernels/reduce_driver.h>

namespace tapehead::kernels {
namespace {

// The parameter of a fold that has none: a scalar, so that loops over it vectorise.
enum class Nothing : char {};

template <class T>
struct Sum {
  using Acc = double;
  using Parameter = Nothing;
  static constexpr Acc identity = 0;
  static TAPEHEAD_INLINE Acc term(T x, Nothing) { return static_cast<double>(x); }
  static TAPEHEAD_INLINE Acc join(Acc a, Acc b) { return a + b; }
};

template <class T>
struct SumOfSquares : Sum<T> {
  static TAPEHEAD_INLINE double term(T x, Nothing) {
    return static_cast<double>(x) * static_cast<double>(x);
  }
};

template <class T>
struct Product : Sum<T> {
  static constexpr double identity = 1;
  static TAPEHEAD_INLINE double join(double a, double b) { return a * b; }
};

template <class T>
struct SquaredDeviation : Sum<T> {
  using Parameter = double;
  static TAPEHEAD_INLINE double term(T x, double mean) {
    const double d = static_cast<double>(x) - mean;
    return d * d;
  }
  static double parameter(double mean) { return mean; }
};

template <class T>
struct Deviation : Sum<T> {
  using Parameter = double;
  static TAPEHEAD_INLINE double term(T x, double mean) { return static_cast<double>(x) - mean; }
  static double parameter(double mean) { return mean; }
};

template <class T>
struct ExpSum : Sum<T> {
  using Parameter = T;
  static TAPEHEAD_INLINE double term(T x, T max) { return static_cast<double>(exp(x - max)); }
  // Without a finite maximum exp(x - max) is inf - inf; exp(x) itself gives the right 0 or inf.
  static T parameter(T max) {
    const bool infinite =
        max == std::numeric_limits<T>::infinity() || max == -std::numeric_limits<T>::infinity();
    return infinite ? T(0) : max;
  }
};

template <class T>
struct CountEqual : Sum<T> {
  using Parameter = T;
  static TAPEHEAD_INLINE double term(T x, T y) {
    return ((x == y) | ((x != x) & (y != y))) ? 1.0 : 0.0;
  }
  static T parameter(T y) { return y; }
};

template <class T>
struct Largest {
  using Acc = T;
  using Parameter = Nothing;
  static constexpr T identity = -std::numeric_limits<T>::infinity();
  static TAPEHEAD_INLINE T term(T x, Nothing) { return x; }
  static TAPEHEAD_INLINE T join(T a, T b) { return larger(a, b); }
};

template <class T>
struct Smallest : Largest<T> {
  static constexpr T identity = std::numeric_limits<T>::infinity();
  static TAPEHEAD_INLINE T join(T a, T b) { return smaller(a, b); }
};

// Bools are bytes of 0 and 1, so that their loops vectorise.
struct AnyOf {
  using Acc = std::uint8_t;
  using Parameter = Nothing;
  static constexpr Acc identity = 0;
  static TAPEHEAD_INLINE Acc term(std::uint8_t x, Nothing) { return x; }
  static TAPEHEAD_INLINE Acc join(Acc a, Acc b) { return a | b; }
};

struct AllOf : AnyOf {
  static constexpr Acc identity = 1;
  static TAPEHEAD_INLINE Acc join(Acc a, Acc b) { return a & b; }
};

constexpr auto as_it_is = [](auto acc, auto) { return acc; };

template <template <class> class F, class Finish>
void reduce_floating(const View& x, const View& y, Finish finish) {
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    reduce<F<T>, T, T>(x, y, nullptr, finish);
  });
}

}  // namespace

void sum(const View& x, const View& y, double divisor) {
  const auto divide = [divisor](double acc, Nothing) { return acc / divisor; };
  visit_floating(x.dtype, [&](auto x_zero) {
    visit_floating(y.dtype, [&](auto y_zero) {
      using T = decltype(x_zero);
      reduce<Sum<T>, T, decltype(y_zero)>(x, y, nullptr, divide);
    });
  });
}

void prod(const View& x, const View& y) { reduce_floating<Product>(x, y, as_it_is); }
void amax(const View& x, const View& y) { reduce_floating<Largest>(x, y, as_it_is); }
void amin(const View& x, const View& y) { reduce_floating<Smallest>(x, y, as_it_is); }

void any(const View& x, const View& y) {
  reduce<AnyOf, std::uint8_t, std::uint8_t>(x, y, nullptr, as_it_is);
}
void all(const View& x, const View& y) {
  reduce<AllOf, std::uint8_t, std::uint8_t>(x, y, nullptr, as_it_is);
}

void norm2(const View& x, const View& y) {
  reduce_floating<SumOfSquares>(x, y, [](double acc, Nothing) { return std::sqrt(acc); });
}

void refine_mean(const View& x, const View& mean, double count) {
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    reduce<Deviation<T>, T, double>(x, mean, mean.as<const double>(),
                                    [=](double acc, double old) { return old + acc / count; });
  });
}

void variance(const View& x, const View& mean, const View& y, double divisor, bool root) {
  const auto finish = [=](double acc, double) {
    return root ? std::sqrt(acc / divisor) : acc / divisor;
  };
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    reduce<SquaredDeviation<T>, T, T>(x, y, mean.as<const double>(), finish);
  });
}

void logsumexp_from_max(const View& x, const View& y) {
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    reduce<ExpSum<T>, T, T>(x, y, y.as<const T>(), [](double acc, T max) {
      return static_cast<double>(max) + std::log(acc);
    });
  });
}

void count_equal(const View& x, const View& y, const View& count) {
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    reduce<CountEqual<T>, T, T>(x, count, y.as<const T>(), [](double acc, T) { return acc; });
  });
}

}  // namespace tapehead::kernels
