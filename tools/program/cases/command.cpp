#include "command.h"

#include <tapehead/core/error.h>
#include <tapehead/graph/glob.h>
#include <tapehead/graph/internal/not_finite.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "../commands.h"
#include "runner.h"

namespace tapehead::program {
namespace {

using nlohmann::json;

struct Report {
  struct Entry {
    std::string file;
    CaseResult result;
  };
  std::vector<Entry> failures;
  std::int64_t passed = 0;
};

Report run_files(const CasesCommand& command) {
  Report report;
  for (const std::string& file : command.files) {
    for (const Case& c : read_case_file(file)) {
      if (!graph::matches(command.only, c.name)) continue;
      CaseResult result = run_case(c, file);
      if (result.passed) ++report.passed;
      else report.failures.push_back({file, std::move(result)});
    }
  }
  if (report.passed == 0 && report.failures.empty() && !command.only.empty())
    throw ValueError("cases", "no case is named like \"" + command.only + "\"");
  return report;
}

// JSON has no numbers for these; the case files' own strings stand for them.
json number(double value) {
  return std::isfinite(value) ? json(value) : json(graph::name_of_not_finite(value));
}

json to_json(const Report::Entry& entry) {
  json failure = {
      {"file", entry.file}, {"name", entry.result.name}, {"message", entry.result.message}};
  if (const std::optional<Mismatch>& mismatch = entry.result.mismatch)
    failure["worst"] = {{"what", mismatch->what},           {"index", mismatch->index},
                        {"got", number(mismatch->got)},     {"want", number(mismatch->want)},
                        {"differing", mismatch->differing}, {"elements", mismatch->elements}};
  return failure;
}

void print_json(const Report& report) {
  json failures = json::array();
  for (const Report::Entry& entry : report.failures) failures.push_back(to_json(entry));
  const json all = {{"passed", report.passed}, {"failed", failures.size()}, {"failures", failures}};
  std::cout << all.dump(2, ' ', false, json::error_handler_t::replace) << "\n";
}

void print_text(const Report& report) {
  for (const Report::Entry& entry : report.failures)
    std::cout << "FAILED " << entry.result.name << ": " << entry.result.message << "\n";
  std::cout << report.passed << " passed, " << report.failures.size() << " failed\n";
}

}  // namespace

int run_cases(const CasesCommand& command) {
  const Report report = run_files(command);
  command.as_json ? print_json(report) : print_text(report);
  return report.failures.empty() ? done : bad_news;
}

}  // namespace tapehead::program
