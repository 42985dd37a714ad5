// Runs cases and says what came out.
#pragma once

#include <optional>
#include <string>

#include "format.h"
#include "operations.h"

namespace tapehead::program {

/// The element that is furthest from what was wanted, measured by its tolerance.
struct Mismatch {
  std::string what;   ///< "output 0" or "gradient of x"
  std::string index;  ///< "(1, 2)"
  double got = 0;
  double want = 0;
  std::int64_t differing = 0;  ///< elements out of tolerance
  std::int64_t elements = 0;
};

struct CaseResult {
  std::string name;
  bool passed = false;
  std::string message;               ///< of a failure, one line
  std::optional<Mismatch> mismatch;  ///< of a failure of values
};

/// Runs one case. Whatever the operation throws makes a failure; a CaseFormatError means that the
/// file (`source`) is at fault.
CaseResult run_case(const Case& c, const std::string& source,
                    const Operations& table = operations());

}  // namespace tapehead::program
