// The commands that README.md shows, run as they stand there: one after the other, in an empty
// folder with a text and the repository's tests.
#include "support/folder.h"
#include "support/program.h"

#include <tapehead/nn/io/atomic_file.h>

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tapehead::tests {
namespace {

// The lines of the first block of shell commands below "## Commands".
std::vector<std::string> commands_of_readme() {
  const std::string text = io::read_file("test", TAPEHEAD_SOURCE_DIR "/README.md");
  const std::size_t begin = text.find("```sh\n", text.find("\n## Commands\n")) + 6;
  std::istringstream block(text.substr(begin, text.find("```", begin) - begin));
  std::vector<std::string> lines;
  for (std::string line; std::getline(block, line);) lines.push_back(line);
  return lines;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  if (const std::size_t at = text.find(what); at != std::string::npos)
    text.replace(at, what.size(), by);
  return text;
}

void write_book(const std::filesystem::path& path) {
  std::ofstream book(path);
  for (int day = 1; day <= 300; ++day) book << "It was day " << day << ", and it was cold.\n";
}

}  // namespace

TEST_CASE("the commands that README shows work, in their order") {
  const Folder folder;
  write_book(folder.file("book.txt"));
  std::filesystem::create_symlink(TAPEHEAD_SOURCE_DIR "/tests", folder.file("tests"));
  const std::vector<std::string> commands = commands_of_readme();
  REQUIRE(commands.size() > 5);
  for (const std::string& command : commands) {
    CAPTURE(command);
    REQUIRE(command.starts_with("tools/run "));
    // All but the ten minutes.
    const std::string arguments = replaced(command.substr(10), "--minutes 10", "--steps 3");
    const int code = run_program(arguments + " > output.txt 2> errors.txt", folder.file(""));
    CHECK_MESSAGE(io::read_file("test", folder.file("errors.txt")).empty(), "stderr is not empty");
    CHECK(io::read_file("test", folder.file("output.txt")).size() > 10);
    // lint has findings.
    CHECK(code == (arguments.starts_with("graph lint") ? 1 : 0));
  }
}

}  // namespace tapehead::tests
