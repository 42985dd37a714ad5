// The program `tapehead`. Exit code 0: done. 1: done, and the news is bad (cases that failed), or
// something unforeseen happened. 2: bad input, and one line on stderr says what and where.
#include <tapehead/core/error.h>

#include <algorithm>
#include <iostream>

#include "cases_format.h"
#include "command.h"
#include "environment.h"

namespace tapehead::program {
namespace {

constexpr int bad_news = 1;
constexpr int bad_input = 2;

int complain(std::string message, int exit_code) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::cerr << "tapehead: " << message << std::endl;
  return exit_code;
}

int run(int argc, const char* const* argv) {
  int exit_code = 0;
  CLI::App app("Trains a small transformer, and shows what the backward pass saves.", "tapehead");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all subcommands");
  add_train(app);
  add_sample(app);
  add_cases(app, exit_code);
  add_lecture(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::ParseError& error) {
    return complain(error.what(), bad_input);
  } catch (const Error& error) {
    return complain(error.what(), bad_input);
  } catch (const CaseFormatError& error) {
    return complain(error.what(), bad_input);
  } catch (const std::exception& error) {
    return complain(std::string("unexpected: ") + error.what(), bad_news);
  }
  return exit_code;
}

}  // namespace
}  // namespace tapehead::program

int main(int argc, char** argv) {
  tapehead::program::use_good_environment(argv);
  return tapehead::program::run(argc, argv);
}
