#include <tapehead/core/error.h>
#include <tapehead/graph/assertion.h>
#include <tapehead/graph/internal/assertion_figures.h>
#include <tapehead/graph/internal/byte_units.h>
#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/internal/letters.h>
#include <tapehead/graph/text.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace tapehead::graph {
namespace {

using nlohmann::json;

// Holds any figure times 10^max_decimals, and any number times its unit.
__extension__ using Wide = __int128;
constexpr std::size_t most_aligned = 50;  // columns of a comparison, in a report
constexpr int max_digits = 18, max_decimals = 6;

// digits / 10^decimals.
struct Number {
  Wide digits = 0;
  int decimals = 0;

  Wide scaled(std::int64_t figure) const {
    Wide wide = figure;
    for (int i = 0; i < decimals; ++i) wide *= 10;
    return wide;
  }
};

constexpr std::array<std::string_view, 6> comparisons = {"==", "!=", "<=", ">=", "<", ">"};

bool compare(Wide a, std::string_view operation, Wide b) {
  if (operation == "==") return a == b;
  if (operation == "!=") return a != b;
  if (operation == "<=") return a <= b;
  if (operation == ">=") return a >= b;
  return operation == "<" ? a < b : a > b;
}

// Reads the text from left to right and evaluates as it goes; nothing is nested, so nothing
// recurs.
class Parser {
 public:
  Parser(const Graph& graph, std::string_view text) : graph_(graph), text_(text) {}

  Assertion run() {
    do {
      bool all = true;
      do all = comparison() && all;
      while (accept("&&"));
      result_.holds = result_.holds || all;
    } while (accept("||"));
    if (at_ < text_.size()) fail("expected && or ||, or the end");
    return std::move(result_);
  }

 private:
  bool comparison() {
    skip_blanks();
    const std::size_t begin = at_;
    const std::string_view name = word();
    const Figure* figure = find_figure(name);
    if (!figure) fail_at(begin, "expected saved, saved_all, slots, square, count, flops or peak");
    const FigureFilter filter = brackets(*figure);
    const auto operation = std::find_if(comparisons.begin(), comparisons.end(),
                                        [&](std::string_view sign) { return accept(sign); });
    if (operation == comparisons.end()) fail("expected ==, !=, <, <=, > or >=");
    const Number number = read_number();
    if (const std::string why = unmatched(graph_, *figure, filter); !why.empty())
      fail_at(begin, why);
    const std::int64_t found = figure->of(graph_, filter);
    const bool holds = compare(number.scaled(found), *operation, number.digits);
    result_.comparisons.push_back({.text = std::string(text_.substr(begin, at_ - begin)),
                                   .figure = found,
                                   .in_bytes = figure->in_bytes,
                                   .holds = holds});
    return holds;
  }

  // (512, module="layers.*"), as far as the figure takes it.
  FigureFilter brackets(const Figure& figure) {
    FigureFilter filter;
    const std::size_t before = at_;
    if (!accept("(")) {
      if (figure.takes_size) fail("expected (N)");
      return filter;
    }
    if (!figure.takes_others) fail_at(before, "peak takes no filter");
    bool more = true;
    if (figure.takes_size) {
      filter.size = read_size();
      more = accept(",");
    }
    for (; more; more = accept(",")) read_filter(figure, filter);
    if (!accept(")")) fail("expected , or )");
    return filter;
  }

  void read_filter(const Figure& figure, FigureFilter& filter) {
    skip_blanks();
    const std::size_t begin = at_;
    const std::string_view key = word();
    std::string* pattern = nullptr;
    if (key == "operation") pattern = &filter.operation;
    else if (key == "module") pattern = &filter.module;
    else if (key == "name" && figure.takes_name) pattern = &filter.name;
    else
      fail_at(begin, figure.takes_name ? "expected name, operation or module"
                                       : "expected operation or module");
    if (!accept("=")) fail("expected =");
    if (!accept("\"")) fail("expected a pattern in double quotes");
    const std::size_t end = text_.find('"', at_);
    if (end == std::string_view::npos) fail("the pattern has no closing quote");
    if (end == at_)
      fail_at(begin, "the pattern of " + std::string(key) +
                         " is empty; leave the filter out to take everything");
    *pattern = text_.substr(at_, end - at_);
    at_ = end + 1;
  }

  std::int64_t read_size() {
    Number number;
    skip_blanks();
    read_digits(number);
    return static_cast<std::int64_t>(number.digits);
  }

  Number read_number() {
    skip_blanks();
    Number number;
    read_digits(number);
    if (at_ < text_.size() && text_[at_] == '.') {
      const std::size_t point = at_++;
      number.decimals = read_digits(number);
      if (number.decimals > max_decimals) fail_at(point, "the number has more than 6 decimals");
    }
    const std::size_t end = at_;
    skip_blanks();
    const std::size_t begin = at_;
    const std::string_view unit = word();
    if (unit.empty()) {
      at_ = end;
      return number;
    }
    const std::int64_t bytes = bytes_of_unit(unit);
    if (bytes == 0)
      fail_at(begin, "expected a unit: B, KB, MB, GB, TB, PB, KiB, MiB, GiB, TiB or PiB");
    number.digits *= bytes;
    return number;
  }

  // Adds digits to the number and returns how many there were.
  int read_digits(Number& number) {
    const std::size_t begin = at_;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_)
      if (at_ - begin < max_digits) number.digits = number.digits * 10 + (text_[at_] - '0');
    const std::size_t count = at_ - begin;
    if (count == 0) fail("expected a number");
    if (count > max_digits) fail_at(begin, "the number has more than 18 digits");
    return static_cast<int>(count);
  }

  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  bool accept(std::string_view sign) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n'))
      ++at_;
  }

  [[noreturn]] void fail(const std::string& what) {
    skip_blanks();
    fail_at(at_, what);
  }
  [[noreturn]] void fail_at(std::size_t at, const std::string& what) const {
    throw ValueError("assert", "column " + std::to_string(at + 1) + ": " + what);
  }

  const Graph& graph_;
  const std::string_view text_;
  std::size_t at_ = 0;
  Assertion result_;
};

}  // namespace

Assertion check_assertion(const Graph& graph, std::string_view text) {
  return Parser(graph, text).run();
}

std::string assertion_text(const Assertion& assertion) {
  std::size_t width = 0;
  for (const Assertion::Comparison& one : assertion.comparisons)
    width = std::max(width, one.text.size());
  std::string text;
  for (const Assertion::Comparison& one : assertion.comparisons)
    text += wrapped(std::string(one.holds ? "true   " : "false  ") +
                        left(std::min(width, most_aligned), one.text) + "   found: " +
                        (one.in_bytes ? format_bytes(one.figure) : format_count(one.figure)),
                    0);
  return text + (assertion.holds ? "holds\n" : "does not hold\n");
}

std::string assertion_json(const Assertion& assertion) {
  json all = json::array();
  for (const Assertion::Comparison& one : assertion.comparisons)
    all.push_back({{"text", one.text}, {"figure", one.figure}, {"holds", one.holds}});
  const json report = {{"holds", assertion.holds}, {"comparisons", std::move(all)}};
  return json_report(report);
}

}  // namespace tapehead::graph
