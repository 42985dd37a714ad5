// How commands join the command line; for the files that describe them to the library CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

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

/// A check of options: left out, a filter takes everything; empty, it is a slip such as a variable
/// that is not set.
inline std::string is_filter(const std::string& text) {
  return text.empty() ? "the pattern is empty; without the option all is taken" : "";
}

/// Adds `tapehead graph` and its commands.
void add_graph(CLI::App& app, int& exit_code);
/// Adds `tapehead plan`.
void add_plan(CLI::App& app, int& exit_code);

}  // namespace tapehead::program
