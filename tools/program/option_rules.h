// What the values of options must hold, said the same by every command. What breaks a rule throws a
// ValueError: "train: --dim 7: it must be a multiple of --heads 4".
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace tapehead::program {

/// "--dim 7".
template <class T>
std::string option_text(const char* option, const T& value) {
  std::ostringstream text;
  text << option << " " << value;
  return text.str();
}

class OptionRules {
 public:
  /// "train".
  explicit constexpr OptionRules(const char* command) : command_(command) {}

  /// `broken` is what is wrong where it does not hold.
  void require(bool holds, const std::string& broken) const;
  /// `rule` goes on after "it must ".
  void must(bool holds, const std::string& option, const std::string& rule) const;

  void positive(const char* option, std::int64_t value) const;
  /// And finite.
  void positive(const char* option, double value) const;
  void heads(std::int64_t dim, std::int64_t heads) const;
  void dropout(double probability) const;
  /// 0 stands for as many as there are cores.
  void threads(std::int64_t count) const;

 private:
  const char* command_;
};

}  // namespace tapehead::program
