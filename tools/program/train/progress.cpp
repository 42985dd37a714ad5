#include "progress.h"

#include <tapehead/graph/text.h>

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

namespace tapehead::program {
namespace {

using graph::fixed;

constexpr double seconds_between_bars = 0.1;
constexpr double seconds_between_lines = 10;

// "2:31", "1:02:31".
std::string clock_time(double seconds) {
  const auto all = static_cast<std::int64_t>(std::lround(std::clamp(seconds, 0.0, 1e9)));
  std::array<char, 32> text;
  if (all >= 3600)
    std::snprintf(text.data(), text.size(), "%lld:%02d:%02d", static_cast<long long>(all / 3600),
                  static_cast<int>(all / 60 % 60), static_cast<int>(all % 60));
  else
    std::snprintf(text.data(), text.size(), "%d:%02d", static_cast<int>(all / 60),
                  static_cast<int>(all % 60));
  return text.data();
}

std::size_t terminal_columns(std::FILE* out) {
  winsize size = {};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string bar(const Status& status, std::size_t width) {
  if (!status.total || width < 5) return "";
  const double done = static_cast<double>(status.step) / static_cast<double>(*status.total);
  const std::size_t inner = width - 3;
  const auto filled = static_cast<std::size_t>(std::min(done, 1.0) * static_cast<double>(inner));
  return "[" + std::string(filled, '#') + std::string(inner - filled, '.') + "] ";
}

}  // namespace

std::string describe(const Status& status) {
  std::string text = "step " + std::to_string(status.step);
  if (status.total) text += "/" + std::to_string(*status.total);
  text += "  loss " + fixed(status.loss, 4);
  if (status.held_out) text += "  held-out sample " + fixed(*status.held_out, 4);
  if (status.tokens_per_second) text += "  " + fixed(*status.tokens_per_second, 0) + " tokens/s";
  if (status.seconds_left) text += "  " + clock_time(*status.seconds_left) + " left";
  return text;
}

Progress::Progress(std::FILE* out, bool may_draw)
    : out_(out), terminal_(may_draw && isatty(fileno(out)) != 0) {}

Progress::~Progress() {
  if (line_open_) std::fputc('\n', out_);
  std::fflush(out_);
}

void Progress::show(const Status& status, bool milestone) {
  const double now = now_seconds();
  const double interval = terminal_ ? seconds_between_bars : seconds_between_lines;
  if (!milestone && now - last_shown_ < interval) return;
  last_shown_ = now;
  if (terminal_) draw(status);
  else std::fprintf(out_, "%s\n", describe(status).c_str());
  std::fflush(out_);
}

// Back to the start of the line, the text, and clear what the last one left behind it. A text that
// is wider than the terminal would wrap, and the next one could not cover it.
void Progress::draw(const Status& status) {
  const std::size_t columns = terminal_columns(out_);
  std::string text = describe(status);
  const std::size_t room = columns > text.size() + 1 ? columns - text.size() - 1 : 0;
  text = bar(status, std::min<std::size_t>(room, 33)) + text;
  text.resize(std::min(text.size(), columns - 1));
  std::fprintf(out_, "\r%s\x1b[K", text.c_str());
  line_open_ = true;
}

double now_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace tapehead::program
