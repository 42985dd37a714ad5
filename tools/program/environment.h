// What surrounds the process when it starts: its standard streams, and the variables that the
// libraries below the program read when they are loaded.
#pragma once

#include <string>

namespace tapehead::program {

/// Puts something unusable in the place of a standard stream that was closed (`>&-`). Else the next
/// file that is opened would take its number, and what is printed would be written into that file.
void hold_standard_streams();

/// The CPU for which OpenBLAS chose its kernels; "unknown" of another BLAS.
std::string blas_kernels();

/// Starts the process again, and does not return, if a variable should be set that is not. What the
/// user has set stays.
///
/// OPENBLAS_CORETYPE: an OpenBLAS older than the CPU takes it for another. With Debian 12's, matrix
/// products are eight times slower than they need be on an Intel CPU of 2023, and on an AMD CPU of
/// 2024 slower by a quarter, for its AVX-512 stays unused.
///
/// GOMP_SPINCOUNT: by default a thread of GCC's OpenMP that waits for the others spins for
/// milliseconds, and when another process wants its core, training is ten times slower. A short
/// spin bridges the gap between two operations and then gives the core up.
void use_good_environment(char* const* argv);

}  // namespace tapehead::program
