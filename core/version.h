// The version of Tapehead. It is written down here only: the build, the CMake package, the
// pkg-config files and the name of the shared library (its SOVERSION) read these three lines.
//
// While the major number is 0, a new minor number may break programs; a patch never does.
#pragma once

#define TAPEHEAD_VERSION_MAJOR 0  ///< A new one may break programs.
#define TAPEHEAD_VERSION_MINOR 1  ///< A new one brings something new.
#define TAPEHEAD_VERSION_PATCH 0  ///< A new one mends faults.

/// One number to compare, such as 10203 for 1.2.3.
#define TAPEHEAD_VERSION \
  (TAPEHEAD_VERSION_MAJOR * 10000 + TAPEHEAD_VERSION_MINOR * 100 + TAPEHEAD_VERSION_PATCH)

namespace tapehead {

/// TAPEHEAD_VERSION as it was when the library was compiled: with a shared library it may differ
/// from that of the headers which a program was compiled with.
int version();

}  // namespace tapehead
