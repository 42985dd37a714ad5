// What the commands of the program share. What each is told, and the function that does it, stand
// in its room: cases/command.h, train/sample_command.h, lecture/lecture.h; graph_commands.h has
// those of `tapehead graph`.
//
// Failures are exceptions: tapehead::Error and CaseFormatError mean bad input. The result is the
// exit code: 1 from a command that worked and has bad news, such as cases that failed.
#pragma once

namespace tapehead::program {

constexpr int done = 0;
constexpr int bad_news = 1;
constexpr int bad_input = 2;

/// Of a run, where none is named.
constexpr const char* default_folder = "tapehead-run";

}  // namespace tapehead::program
