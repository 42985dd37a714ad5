// tapehead cases: what it is told.
#pragma once

#include <string>
#include <vector>

namespace tapehead::program {

/// Runs case files against this library.
struct CasesCommand {
  std::vector<std::string> files;
  std::string only = {};
  bool as_json = false;
};

int run_cases(const CasesCommand& command);

}  // namespace tapehead::program
