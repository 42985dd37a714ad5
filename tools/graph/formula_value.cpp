#include <tapehead/core/error.h>
#include <tapehead/graph/formula_value.h>
#include <tapehead/graph/internal/fraction.h>
#include <tapehead/graph/internal/letters.h>

#include <charconv>
#include <cstddef>

namespace tapehead::graph {
namespace {

// Bounds the recursion, whatever a file says.
constexpr int max_depth = 64;

// One function for each rule of the grammar:
//     sum      = ["-"] product {("+" | "-") product}
//     product  = power {("*" | "/") power}
//     power    = atom ["^" power]
//     atom     = number | name | "(" sum ")"
class Evaluation {
 public:
  Evaluation(std::string_view text, const Sizes& sizes) : text_(text), sizes_(sizes) {}

  std::int64_t run() try {
    const Fraction value = sum();
    if (at_ < text_.size()) fail("an operator must stand");
    if (!value.is_whole())
      complain("its value " + std::to_string(narrowed(value.numerator())) + "/" +
               std::to_string(narrowed(value.denominator())) + " is not whole");
    return narrowed(value.numerator());
  } catch (const Fraction::Overflow&) {
    complain("its value does not fit in 63 bits");
  }

 private:
  Fraction sum() {
    Fraction value = take('-') ? Fraction() - product() : product();
    for (;;) {
      if (take('+')) value = value + product();
      else if (take('-')) value = value - product();
      else return value;
    }
  }

  Fraction product() {
    Fraction value = power();
    for (;;) {
      if (take('*')) value = value * power();
      else if (take('/')) value = quotient(value, power());
      else return value;
    }
  }

  Fraction quotient(const Fraction& a, const Fraction& b) const {
    if (b.numerator() == 0) complain("a division by 0");
    return a / b;
  }

  Fraction power() {
    if (++depth_ > max_depth) fail("the formula is nested too deeply");
    const Fraction base = atom();
    const Fraction value = take('^') ? raise(base, power()) : base;
    --depth_;
    return value;
  }

  Fraction atom() {
    skip_blanks();
    const char next = at_ < text_.size() ? text_[at_] : '\0';
    if (is_digit(next)) return number();
    if (is_letter(next)) return size();
    if (!take('(')) fail("a number, a name or \"(\" must stand");
    const Fraction value = sum();
    if (!take(')')) fail("\")\" must stand");
    return value;
  }

  std::int64_t number() {
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) throw Fraction::Overflow{};
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  std::int64_t size() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    const auto found = sizes_.find(name);
    if (found == sizes_.end()) complain("no size is named \"" + std::string(name) + "\"");
    return found->second;
  }

  // Any other base than 1, 0 and -1 overflows after 127 steps at most.
  Fraction raise(const Fraction& base, const Fraction& exponent) const {
    if (!exponent.is_whole()) complain("an exponent is not whole");
    std::int64_t times = narrowed(exponent.numerator());
    if (times < 0) complain("the exponent " + std::to_string(times) + " is negative");
    const bool stays = base.is_whole() && base.numerator() >= -1 && base.numerator() <= 1;
    if (stays && times > 0) times = 2 - times % 2;
    Fraction value = 1;
    for (; times > 0; --times) value = value * base;
    return value;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char wanted) {
    skip_blanks();
    const bool found = at_ < text_.size() && text_[at_] == wanted;
    if (found) ++at_;
    return found;
  }

  [[noreturn]] void complain(const std::string& what) const {
    throw ValueError("formula", "\"" + std::string(text_) + "\": " + what);
  }
  [[noreturn]] void fail(const std::string& what) const {
    complain(what + " at character " + std::to_string(at_ + 1));
  }

  std::string_view text_;
  const Sizes& sizes_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::int64_t formula_value(std::string_view formula, const Sizes& sizes) {
  return Evaluation(formula, sizes).run();
}

}  // namespace tapehead::graph
