#include <tapehead/ops/kernels/lines.h>
#include <tapehead/ops/kernels/scan.h>

namespace tapehead::kernels {

void cumsum(const View& x, const View& y, std::int64_t dim, bool reverse) {
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_lines<2>({&x, &y}, dim, [&](const Lines<2>& lines) {
      double running[Lines<2>::max_width] = {};
      for (std::int64_t k = 0; k < lines.length; ++k) {
        const std::int64_t i = reverse ? lines.length - 1 - k : k;
        const T* from = x.as<const T>() + lines.start[0] + i * lines.step[0];
        T* to = y.as<T>() + lines.start[1] + i * lines.step[1];
        for (std::int64_t j = 0; j < lines.width; ++j) {
          running[j] += static_cast<double>(from[j * lines.next[0]]);
          to[j * lines.next[1]] = static_cast<T>(running[j]);
        }
      }
    });
  });
}

// The product of those before, times the product of those behind: no division, so zeros are as good
// as other numbers.
void products_of_others(const View& x, const View& y, std::int64_t dim) {
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_lines<2>({&x, &y}, dim, [&](const Lines<2>& lines) {
      const auto pass = [&](bool reverse) {
        double running[Lines<2>::max_width];
        for (double& product : running) product = 1;
        for (std::int64_t k = 0; k < lines.length; ++k) {
          const std::int64_t i = reverse ? lines.length - 1 - k : k;
          const T* from = x.as<const T>() + lines.start[0] + i * lines.step[0];
          T* to = y.as<T>() + lines.start[1] + i * lines.step[1];
          for (std::int64_t j = 0; j < lines.width; ++j) {
            T& other = to[j * lines.next[1]];
            other = static_cast<T>(reverse ? static_cast<double>(other) * running[j] : running[j]);
            running[j] *= static_cast<double>(from[j * lines.next[0]]);
          }
        }
      };
      pass(false);
      pass(true);
    });
  });
}

}  // namespace tapehead::kernels
