// How commands join the command line; for the files that describe them to the library CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace tapehead::program {

/// Adds a command that is parsed into a Command and then done by `run`.
template <class Command>
CLI::App& add_command(CLI::App& app, const char* name, const char* text,
                      const std::shared_ptr<Command>& command, int (*run)(const Command&),
                      int& exit_code) {
  CLI::App* sub = app.add_subcommand(name, text);
  sub->final_callback([command, run, &exit_code] { exit_code = run(*command); });
  return *sub;
}

/// Makes every option of the app and its commands that takes a number refuse what is none, what its
/// type cannot hold, and what is not finite. The library by itself takes 2^64 for the largest
/// number that it can hold, -1 for a large unsigned one, and 010 for 8.
void check_numbers(CLI::App& app);

/// Adds `tapehead graph` and its commands.
void add_graph(CLI::App& app, int& exit_code);
/// Adds `tapehead plan`.
void add_plan(CLI::App& app, int& exit_code);

}  // namespace tapehead::program
