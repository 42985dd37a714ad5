// The program `tapehead`. Exit code 0: done. 1: done, and the news is bad (cases that failed), or
// something unforeseen happened. 2: bad input, and one line on stderr says what and where.
#include "command_line.h"
#include "environment.h"

int main(int argc, char** argv) {
  tapehead::program::use_good_environment(argv);
  return tapehead::program::run_command_line(argc, argv);
}
