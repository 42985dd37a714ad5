#include "option_rules.h"

#include <tapehead/core/error.h>

#include <cmath>

namespace tapehead::program {
namespace {

// A machine has fewer cores, and OpenMP ends the process when it cannot start a thread.
constexpr std::int64_t most_threads = 1024;

}  // namespace

void OptionRules::require(bool holds, const std::string& broken) const {
  if (!holds) throw ValueError(command_, broken);
}

void OptionRules::must(bool holds, const std::string& option, const std::string& rule) const {
  require(holds, option + ": it must " + rule);
}

void OptionRules::positive(const char* option, std::int64_t value) const {
  must(value > 0, option_text(option, value), "be positive");
}

void OptionRules::positive(const char* option, double value) const {
  must(value > 0 && std::isfinite(value), option_text(option, value), "be positive and finite");
}

void OptionRules::heads(std::int64_t dim, std::int64_t heads) const {
  must(dim % heads == 0, option_text("--dim", dim),
       "be a multiple of " + option_text("--heads", heads));
}

void OptionRules::dropout(double probability) const {
  must(probability >= 0 && probability < 1, option_text("--dropout", probability),
       "be at least 0 and below 1");
}

void OptionRules::threads(std::int64_t count) const {
  must(count >= 0 && count <= most_threads, option_text("--threads", count),
       "be 0 to " + std::to_string(most_threads));
}

}  // namespace tapehead::program
