// A subcommand of the program: one file each, which defines its add_ function.
#pragma once

#include <CLI/CLI.hpp>

namespace tapehead::program {

// Each adds its subcommand to `app` and, where it was chosen, runs in its callback. Failures are
// exceptions: tapehead::Error and CaseFormatError mean bad input. `exit_code` is set to something
// else than 0 by a command that worked and has bad news, such as cases that failed.
void add_train(CLI::App& app);
void add_sample(CLI::App& app);
void add_cases(CLI::App& app, int& exit_code);
void add_lecture(CLI::App& app, int& exit_code);

}  // namespace tapehead::program
