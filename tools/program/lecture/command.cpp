// tapehead lecture: the command line.
#include "../command.h"
#include "lecture.h"

#include <memory>

namespace tapehead::program {

void add_lecture(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<lecture::LectureOptions>();
  CLI::App* command = app.add_subcommand(
      "lecture",
      "Computes the figures of a lecture on self-attention with this library's operations: for "
      "each "
      "the lecture's, ours, and the bound that decides. Exit code 0 if all pass, else 1.\n"
      "Example: tapehead lecture --only 4");
  command->add_option("--only", options->only, "One group: 1 to 12, or self-test");
  command->add_flag("--json", options->json, "The report as JSON");
  command->callback([options, &exit_code] { exit_code = lecture::run_lecture(*options); });
}

}  // namespace tapehead::program
