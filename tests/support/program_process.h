// Processes of the program `tapehead`: their output, their end, and the files of a training.
#pragma once

#include "checks.h"
#include "folder.h"

#include <tapehead/nn/io/atomic_file.h>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tapehead::tests {

using Arguments = std::vector<std::string>;

/// A folder whose files go by their names.
struct WorkFolder : Folder {
  std::string operator/(const std::string& name) const { return file(name.c_str()).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name, std::ios::binary) << text;
    return *this / name;
  }
};

/// The whole of a file.
inline std::string content(const std::string& path) { return io::read_file("test", path); }

/// What the program's stdout is.
enum class Stdout { file, full_disk, closed, unread_pipe, unread_pipe_without_signal };

/// A process of the program that was started; its output goes to files, which are empty at first.
class Process {
 public:
  Process(const WorkFolder& folder, const Arguments& arguments, Stdout stdout_is = Stdout::file)
      : out_(folder.write("stdout.txt", "")), err_(folder.write("stderr.txt", "")), id_(fork()) {
    if (id_ == 0) exec(arguments, stdout_is);
  }
  ~Process() {
    if (id_ > 0) {
      kill(id_, SIGKILL);
      wait();
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int number) const { kill(id_, number); }
  /// The exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string out() const { return content(out_); }
  std::string err() const { return content(err_); }

 private:
  static void redirect(const std::string& path, int descriptor) {
    if (dup2(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666), descriptor) < 0) _exit(126);
  }
  // After stderr's file was opened, which would take the number of a closed stdout.
  void redirect_stdout(Stdout to) const {
    redirect(out_, STDOUT_FILENO);
    if (to == Stdout::full_disk) redirect("/dev/full", STDOUT_FILENO);
    if (to == Stdout::closed) close(STDOUT_FILENO);
    if (to != Stdout::unread_pipe && to != Stdout::unread_pipe_without_signal) return;
    signal(SIGPIPE, to == Stdout::unread_pipe ? SIG_DFL : SIG_IGN);
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0) _exit(126);
    close(ends[0]);
    close(ends[1]);
  }
  [[noreturn]] void exec(const Arguments& arguments, Stdout stdout_is) const {
    redirect(err_, STDERR_FILENO);
    redirect_stdout(stdout_is);
    // Threads that spin while they wait would slow down the tests that run beside this one.
    setenv("OMP_WAIT_POLICY", "passive", 1);
    std::vector<char*> words = {const_cast<char*>(TAPEHEAD_PROGRAM)};
    for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(TAPEHEAD_PROGRAM, words.data());
    _exit(127);
  }

  std::string out_, err_;
  pid_t id_;
};

/// How a process ended, and what it wrote.
struct Finished {
  int exit_code;
  std::string out, err;
};

/// Starts one and waits for its end.
inline Finished run(const WorkFolder& folder, const Arguments& arguments,
                    Stdout stdout_is = Stdout::file) {
  Process process(folder, arguments, stdout_is);
  const int exit_code = process.wait();
  return {exit_code, process.out(), process.err()};
}

/// Bad input, or lost output: exit code 2, one line on stderr.
inline void check_refused(const WorkFolder& folder, const Arguments& arguments,
                          const std::string& what, Stdout stdout_is = Stdout::file) {
  const Finished finished = run(folder, arguments, stdout_is);
  INFO(what, ": ", finished.err);
  CHECK(finished.exit_code == 2);
  CHECK(contains(finished.err, what));
  CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
}

/// Text in which every character but a few follows from the one before.
inline std::string sample_text() {
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += "the tape records, " + std::to_string(i % 7) + " times; \xc3\xa9\n";
  return text;
}

/// Trains a small model, and goes on with it.
inline Arguments train(const std::string& text, const std::string& out,
                       const Arguments& more = {}) {
  Arguments all = {"train", "--text",    text, "--out",     out,  "--layers",
                   "1",     "--heads",   "2",  "--dim",     "16", "--batch",
                   "4",     "--context", "16", "--threads", "1"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

inline Arguments resume(const std::string& out) {
  return {"train", "--resume", "--out", out, "--threads", "1"};
}

/// The training losses of a run, digit for digit.
inline std::vector<std::string> losses(const std::string& out) {
  std::istringstream lines(content(out + "/losses.csv"));
  std::vector<std::string> all;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) all.push_back(line.substr(0, line.rfind(',')));
  return all;
}

}  // namespace tapehead::tests
