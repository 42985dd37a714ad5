// The command line of the program. Only its sources, add_command.h and check_numbers.h know the
// library which parses it: that library's header alone takes seconds to compile.
#pragma once

namespace tapehead::program {

/// Runs the command that the arguments name, and returns its exit code; whatever is wrong with
/// them, with the command's input or with stdout is one line on stderr.
int run_command_line(int argc, const char* const* argv);

}  // namespace tapehead::program
