// The program `tapehead`. Exit code 0: done. 1: done, and the news is bad (cases that failed), or
// something unforeseen happened. 2: bad input, or output that was lost, and one line on stderr says
// what and where. A reader of stdout who goes away ends the process by SIGPIPE, as usual.
#include "command_line.h"
#include "environment.h"

int main(int argc, char** argv) {
  tapehead::program::hold_standard_streams();
  tapehead::program::use_good_environment(argv);
  return tapehead::program::run_command_line(argc, argv);
}
