// Which of its kernels OpenBLAS runs.
#pragma once

namespace tapehead::program {

/// OpenBLAS looks at the CPU when it is loaded. One that is older than the CPU (Debian 12's, on an
/// Intel CPU of 2023) takes it for the oldest that it knows, and matrix products are eight times
/// slower than they need be. Its only remedy is a variable in the environment that it starts in. So
/// in that case, and unless the user has set the variable, this starts the process again with it:
/// it does not return. In all other cases it does nothing.
void use_kernels_of_this_cpu(char* const* argv);

}  // namespace tapehead::program
