#include "environment.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

// Weak: another BLAS that stands in for OpenBLAS does not have it.
extern "C" [[gnu::weak]] char* openblas_get_corename(void);

namespace tapehead::program {
namespace {

constexpr const char* kernels_variable = "OPENBLAS_CORETYPE";
constexpr const char* spin_variable = "GOMP_SPINCOUNT";
constexpr const char* wait_variable = "OMP_WAIT_POLICY";

// What OpenBLAS takes an x86-64 CPU for that it does not know: its oldest or, if it can use AVX2,
// the first that could. Zen is the name of those without AVX-512.
constexpr std::string_view oldest = "Prescott", first_with_avx2 = "Haswell", without_avx512 = "Zen";

// Some tens of microseconds.
constexpr const char* short_spin = "1000";

// The name of kernels that run on this CPU; null when there are none to gain.
const char* better_kernels() {
#if defined(__x86_64__)
  const std::string chosen = blas_kernels();
  if (chosen != oldest && chosen != first_with_avx2 && chosen != without_avx512) return nullptr;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (chosen == oldest && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return "Haswell";
#endif
  return nullptr;
}

}  // namespace

std::string blas_kernels() { return openblas_get_corename ? openblas_get_corename() : "unknown"; }

void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is this one. The wrong way round, so that using it fails.
    if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

void use_good_environment(char* const* argv) {
  bool changed = false;
  if (const char* kernels = better_kernels(); kernels && !std::getenv(kernels_variable))
    changed = setenv(kernels_variable, kernels, 1) == 0;
  if (!std::getenv(wait_variable) && !std::getenv(spin_variable))
    changed = setenv(spin_variable, short_spin, 1) == 0 || changed;
  if (changed) execv("/proc/self/exe", argv);  // if that fails, go on with what there is
}

}  // namespace tapehead::program
