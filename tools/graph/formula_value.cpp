#include <tapehead/core/error.h>
#include <tapehead/graph/formula_value.h>

#include <charconv>
#include <cstddef>

namespace tapehead::graph {
namespace {

// Bounds the recursion, whatever a file says.
constexpr int max_depth = 64;

// One function for each rule of the grammar:
//     sum      = ["-"] product {("+" | "-") product}
//     product  = power {"*" power}
//     power    = atom ["^" power]
//     atom     = number | name | "(" sum ")"
class Evaluation {
 public:
  Evaluation(std::string_view text, const Sizes& sizes) : text_(text), sizes_(sizes) {}

  std::int64_t run() {
    const std::int64_t value = sum();
    if (at_ < text_.size()) fail("an operator must stand");
    return value;
  }

 private:
  std::int64_t sum() {
    std::int64_t value = take('-') ? subtract(0, product()) : product();
    for (;;) {
      if (take('+')) value = add(value, product());
      else if (take('-')) value = subtract(value, product());
      else return value;
    }
  }

  std::int64_t product() {
    std::int64_t value = power();
    while (take('*')) value = multiply(value, power());
    return value;
  }

  std::int64_t power() {
    if (++depth_ > max_depth) fail("the formula is nested too deeply");
    const std::int64_t base = atom();
    const std::int64_t value = take('^') ? raise(base, power()) : base;
    --depth_;
    return value;
  }

  std::int64_t atom() {
    skip_blanks();
    const char next = at_ < text_.size() ? text_[at_] : '\0';
    if (is_digit(next)) return number();
    if (is_letter(next)) return size();
    if (!take('(')) fail("a number, a name or \"(\" must stand");
    const std::int64_t value = sum();
    if (!take(')')) fail("\")\" must stand");
    return value;
  }

  std::int64_t number() {
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) overflow();
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

  std::int64_t add(std::int64_t a, std::int64_t b) const {
    if (__builtin_add_overflow(a, b, &a)) overflow();
    return a;
  }
  std::int64_t subtract(std::int64_t a, std::int64_t b) const {
    if (__builtin_sub_overflow(a, b, &a)) overflow();
    return a;
  }
  std::int64_t multiply(std::int64_t a, std::int64_t b) const {
    if (__builtin_mul_overflow(a, b, &a)) overflow();
    return a;
  }
  // A base beyond 1 overflows after 63 steps at most; the others stay what they are.
  std::int64_t raise(std::int64_t base, std::int64_t exponent) const {
    if (exponent < 0) complain("the exponent " + std::to_string(exponent) + " is negative");
    if (base >= -1 && base <= 1) exponent = exponent == 0 ? 0 : 2 - exponent % 2;
    std::int64_t value = 1;
    for (; exponent > 0; --exponent) value = multiply(value, base);
    return value;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
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
  [[noreturn]] void overflow() const { complain("its value does not fit in 63 bits"); }

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
