#include "blas_kernels.h"

#include <unistd.h>
#include <cstdlib>
#include <string_view>

// Weak: another BLAS that stands in for OpenBLAS does not have it.
extern "C" [[gnu::weak]] char* openblas_get_corename(void);

namespace tapehead::program {
namespace {

constexpr const char* variable = "OPENBLAS_CORETYPE";

// What OpenBLAS calls an x86-64 CPU that it does not know.
constexpr std::string_view unknown_cpu = "Prescott";

// The name of kernels that run on this CPU; null when there are none to gain.
const char* better_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

}  // namespace

void use_kernels_of_this_cpu(char* const* argv) {
  if (!openblas_get_corename || unknown_cpu != openblas_get_corename()) return;
  const char* const better = better_kernels();
  if (!better || std::getenv(variable)) return;
  setenv(variable, better, 1);
  execv("/proc/self/exe", argv);  // when it fails, the process goes on with what it has
}

}  // namespace tapehead::program
