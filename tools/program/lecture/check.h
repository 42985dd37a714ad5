// One figure of the lecture beside ours, with the bound that decides whether they agree.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tapehead::program::lecture {

/// A figure as the lecture prints it: "2.2e-7", "0.19", or words where it gives no number.
struct Quote {
  Quote(const char* printed);  // NOLINT: implicit, so that a check reads like the lecture

  std::string text;
  std::optional<double> value;  ///< nothing for words
  double half_unit = 0;         ///< half of its last digit's place: 0.005 for "0.19"
};

/// The interval that decides, both ends included. A NaN lies in none.
struct Bound {
  enum class On { ours, lecture };

  On on;  ///< whose figure has to lie in it
  double low, high;
};

Bound exactly(double value);
Bound at_most(double value);
Bound at_least(double value);
/// Our figure rounds to the lecture's.
Bound rounds_to(const Quote& lecture);
/// The lecture's figure, give or take its rounding, is as our own repetitions of it are.
Bound spread(double low, double high);

struct Check {
  std::string name;
  Quote lecture;
  double ours;
  Bound bound;
  std::string note = {};

  bool passed() const;
};

/// The checks of one group of the lecture's script.
struct Group {
  std::string id;       ///< "1" to "12", or "self-test"
  std::string title;    ///< what is checked, and the lecture's section
  std::string setting;  ///< the sizes, and what is drawn
  std::vector<Check> checks = {};

  void add(std::string name, Quote lecture, double ours, Bound bound, std::string note = {});
};

std::string to_string(const Bound& bound);
/// Four significant digits; integers in full.
std::string format(double value);

}  // namespace tapehead::program::lecture
