// What `tapehead plan` prints.
#pragma once

#include <optional>
#include <string>

#include "plan.h"

namespace tapehead::program {

struct PlanReport {
  std::string name;  ///< of the model
  TrainingSetup setup;
  Costs costs;
  std::optional<std::int64_t> memory = {};  ///< bytes to fit in
  std::optional<std::string> fitted = {};   ///< "batch" or "context": the largest that fits
  std::optional<graph::GraphForms> forms = {};
};

enum class Verdict {
  fits,      ///< even with all that buffers may be rounded up by
  may_fit,   ///< the tensors do
  too_large  ///< the tensors do not
};
Verdict verdict(const Costs& costs, std::int64_t memory);

/// For a terminal, in at most graph::page_columns.
std::string plan_text(const PlanReport& report);
/// tapehead-plan/1.
std::string plan_json(const PlanReport& report);

}  // namespace tapehead::program
