#include "interrupt.h"

namespace tapehead::program {
namespace {

volatile std::sig_atomic_t noted = 0;

void (*previous_handler)(int) = nullptr;

extern "C" void note_signal(int number) {
  noted = 1;
  if (number == SIGTERM && previous_handler) previous_handler(number);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  noted = 0;
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_int_);
  sigaction(SIGTERM, nullptr, &previous_term_);
  const bool has_handler =
      previous_term_.sa_handler != SIG_DFL && previous_term_.sa_handler != SIG_IGN;
  previous_handler = has_handler ? previous_term_.sa_handler : nullptr;
  sigaction(SIGTERM, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_int_, nullptr);
  sigaction(SIGTERM, &previous_term_, nullptr);
}

bool InterruptGuard::requested() const { return noted != 0; }

}  // namespace tapehead::program
