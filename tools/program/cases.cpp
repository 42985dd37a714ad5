// tapehead cases: runs case files against this library.
#include <tapehead/core/error.h>

#include <cmath>
#include <iostream>
#include <memory>

#include "cases_runner.h"
#include "command.h"

namespace tapehead::program {
namespace {

using nlohmann::json;

struct CasesOptions {
  std::vector<std::string> files;
  std::string only;
  bool as_json = false;
};

struct Report {
  struct Entry {
    std::string file;
    CaseResult result;
  };
  std::vector<Entry> failures;
  std::int64_t passed = 0;
};

Report run_files(const CasesOptions& options) {
  Report report;
  for (const std::string& file : options.files) {
    for (const Case& c : read_case_file(file)) {
      if (!matches(options.only, c.name)) continue;
      CaseResult result = run_case(c, file);
      if (result.passed) ++report.passed;
      else report.failures.push_back({file, std::move(result)});
    }
  }
  if (report.passed == 0 && report.failures.empty() && !options.only.empty())
    throw ValueError("cases", "no case is named like \"" + options.only + "\"");
  return report;
}

// JSON has no numbers for these; the case files' own strings stand for them.
json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
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

void add_cases(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<CasesOptions>();
  CLI::App* command = app.add_subcommand(
      "cases",
      "Runs case files (format tapehead-cases/1): operations with the results and gradients that "
      "another framework computed. Exit code 0 if all pass, 1 if some fail, 2 if a file is "
      "malformed.\n"
      "Example: tapehead cases tests/cases/*.json --only 'softmax/*'");
  command->add_option("FILE", options->files, "Case files")->required();
  command->add_option("--only", options->only,
                      "Only cases whose name contains this; * and ? are wildcards");
  command->add_flag("--json", options->as_json, "The report as JSON");
  command->callback([options, &exit_code] {
    const Report report = run_files(*options);
    options->as_json ? print_json(report) : print_text(report);
    exit_code = report.failures.empty() ? 0 : 1;
  });
}

}  // namespace tapehead::program
