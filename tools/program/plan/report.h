// What `tapehead plan` prints.
#pragma once

#include <optional>
#include <string>

#include "plan.h"
#include "ranks.h"

namespace tapehead::program {

/// What was looked for: the largest batch or context that fits for certain.
struct Fit {
  std::string what;          ///< "batch" or "context"
  std::int64_t largest = 0;  ///< 0 when not even 1 fits; the report is then for 1
};

struct PlanReport {
  std::string name;  ///< of the model
  TrainingSetup setup;
  Costs costs;
  std::optional<std::int64_t> memory = {};  ///< bytes to fit in
  std::optional<Fit> fit = {};
  std::optional<FormsNear> forms = {};
  RanksSetup ranks_setup = {};
  std::optional<RanksCosts> ranks = {};
};

enum class Verdict {
  fits,      ///< even with all that buffers may be rounded up by
  may_fit,   ///< the tensors do
  too_large  ///< the tensors do not
};
Verdict verdict(const Costs& costs, std::int64_t memory);

/// For a terminal, in at most graph::page_columns.
std::string plan_text(const PlanReport& report);
/// The same figures, format tapehead-plan/1: Costs by name, model and setup as the command line
/// names them, and under "memory", "fit", "ranks" and "closed_forms" what was asked for. A form is
/// text, or null where there is none.
std::string plan_json(const PlanReport& report);

}  // namespace tapehead::program
