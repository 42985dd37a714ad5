#include "ranks.h"

#ifdef TAPEHEAD_MPI
#include <tapehead/nn/mpi_group.h>
#endif

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <thread>

namespace tapehead::program {
namespace {

// mpirun sends SIGKILL a second after SIGTERM.
constexpr suseconds_t microseconds_to_finish = 700'000;
constexpr auto time_for_the_others = std::chrono::seconds(5);

#ifndef TAPEHEAD_MPI
// Not every launcher says how many it started.
bool is_one_of_several() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(variable)) return std::string_view(size) != "1";
  return nn::launched_rank().value_or(0) > 0;
}
#endif

// The first of several ranks to meet with a fault ends, and then mpirun ends the others. One that
// is still there after this time was the only one.
void wait_for_the_end() { std::this_thread::sleep_for(time_for_the_others); }

// ---- in a signal handler: only what is safe there -----------------------------------------------

nn::ProcessGroup* group_to_end_with = nullptr;

// A line of text that is put together without allocating.
class Line {
 public:
  Line& add(std::string_view part) {
    const std::size_t count = std::min(part.size(), text_.size() - size_);
    std::memcpy(text_.data() + size_, part.data(), count);
    size_ += count;
    return *this;
  }
  Line& add(int number) {
    std::array<char, 12> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return add({digits.data(), static_cast<std::size_t>(end - digits.data())});
  }
  std::string_view text() const { return {text_.data(), size_}; }

 private:
  std::array<char, 240> text_;
  std::size_t size_ = 0;
};

[[noreturn]] void end_with(const Line& line) {
  const std::string_view text = line.text();
  if (group_to_end_with->is_first_to_report() && write(STDERR_FILENO, text.data(), text.size()) < 0)
    _exit(2);
  _exit(1);
}

[[noreturn]] void end_for_want_of(int rank) {
  end_with(Line()
               .add("tapehead: train: rank ")
               .add(rank)
               .add(" has ended, and the run with it; --resume goes on from the last save, if "
                    "there is one\n"));
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

void set_timer(suseconds_t microseconds) {
  const itimerval timer = {.it_interval = {}, .it_value = {0, microseconds}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

extern "C" void end_soon(int) {
  if (const std::optional<int> lost = group_to_end_with->lost_rank()) end_for_want_of(*lost);
  set_timer(microseconds_to_finish);
}

extern "C" void end_now(int) {
  if (const std::optional<int> lost = group_to_end_with->lost_rank()) end_for_want_of(*lost);
  Line line;
  line.add(
      "tapehead: train: stopped in the middle of a step or a measurement; --resume goes on "
      "from the last save, if there is one\n");
  end_with(line);
}

// ---- outside of it ------------------------------------------------------------------------------

// Ends before the group does, which the handlers ask.
class Handlers {
 public:
  explicit Handlers(nn::ProcessGroup& group) {
    group_to_end_with = &group;
    handle(SIGTERM, end_soon);
    handle(SIGALRM, end_now);
  }
  ~Handlers() {
    set_timer(0);
    handle(SIGALRM, SIG_IGN);
    handle(SIGTERM, SIG_DFL);
  }
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;
};

}  // namespace

void let_rank_0_speak() {
  if (nn::launched_rank().value_or(0) != 0) wait_for_the_end();
}

std::unique_ptr<nn::ProcessGroup> join_ranks() {
#ifdef TAPEHEAD_MPI
  if (!nn::launched_rank()) return std::make_unique<nn::OneProcess>();
  auto group = std::make_unique<nn::MpiGroup>();
  if (group->rank() > 0 && !std::freopen("/dev/null", "w", stdout))
    throw IoError("train", "/dev/null: cannot be opened");
  return group;
#else
  if (is_one_of_several()) {
    let_rank_0_speak();
    throw StateError("train",
                     "this program was built without MPI, so several processes cannot train "
                     "together: install MPI and configure with -DTAPEHEAD_MPI=ON");
  }
  return std::make_unique<nn::OneProcess>();
#endif
}

void together(nn::ProcessGroup& group, const std::function<void()>& part) {
  std::string fault;
  std::exception_ptr thrown;
  try {
    part();
  } catch (const Error& error) {
    fault = error.what();
    thrown = std::current_exception();
  }
  const std::vector<std::string> faults = group.all_gather(fault);
  const auto is_own = [&](const std::string& other) { return other == fault; };
  if (thrown && std::all_of(faults.begin(), faults.end(), is_own)) std::rethrow_exception(thrown);
  for (std::size_t rank = 0; rank < faults.size(); ++rank)
    if (!faults[rank].empty()) throw StateError("rank " + std::to_string(rank), faults[rank]);
}

void as_one(nn::ProcessGroup& group, const std::function<void()>& work) {
  if (group.size() == 1) return work();
  const Handlers handlers(group);
  try {
    work();
  } catch (const nn::RankLostError& error) {
    std::fflush(stdout);
    end_for_want_of(error.rank());
  } catch (...) {
    if (!group.is_first_to_report()) wait_for_the_end();
    throw;
  }
}

}  // namespace tapehead::program
