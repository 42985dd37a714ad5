// Numbers on the command line.
#pragma once

#include <CLI/CLI.hpp>

namespace tapehead::program {

/// Makes every option of the app and its commands that takes a number refuse what is none, what its
/// type cannot hold, and what is not finite. The library by itself takes 2^64 for the largest
/// number that it can hold, -1 for a large unsigned one, and 010 for 8.
void check_numbers(CLI::App& app);

}  // namespace tapehead::program
