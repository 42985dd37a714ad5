// tapehead lecture: its figures, that its bounds can fail, and its two reports. The command itself,
// with all repeats, is a ctest test of its own.
#include "support/checks.h"
#include "support/values.h"

#include "../tools/program/lecture/draws.h"
#include "../tools/program/lecture/formulas.h"
#include "../tools/program/lecture/lecture.h"
#include "../tools/program/lecture/report.h"

#include <tapehead/ops/create.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/windows.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <set>
#include <sstream>

using namespace tapehead;
using namespace tapehead::program::lecture;
using tests::check_throws;
using tests::not_a_number;

namespace {

// Two repeats give no spread worth its name, but all else is as in the command.
const std::vector<Group>& all_groups() {
  static const std::vector<Group> groups = lecture_checks({.repeats = 2});
  return groups;
}

bool is_spread(const Check& check) { return check.bound.on == Bound::On::lecture; }

const Check& find(const std::string& group, const std::string& name) {
  for (const Group& g : all_groups())
    for (const Check& check : g.checks)
      if (g.id == group && check.name == name) return check;
  FAIL("no check ", name, " in group ", group);
  throw std::logic_error("unreachable");
}

// Whether the check would pass had we computed `ours`.
bool passes_with(Check check, double ours) {
  check.ours = ours;
  return check.passed();
}

std::string table(const std::vector<Group>& groups) {
  std::ostringstream out;
  print_table(out, groups);
  return out.str();
}

}  // namespace

// ---- the figures --------------------------------------------------------------------------------

TEST_CASE("the lecture's groups and self-test are all there, and pass but for what is drawn") {
  std::vector<std::string> ids;
  for (const Group& group : all_groups()) {
    ids.push_back(group.id);
    CHECK(!group.setting.empty());
    for (const Check& check : group.checks)
      if (!is_spread(check))
        CHECK_MESSAGE(check.passed(), group.id, " ", check.name, ": ", check.ours, " ", check.note);
  }
  CHECK(ids == std::vector<std::string>{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11",
                                        "12", "self-test"});
}

TEST_CASE("names are unique within a group of the lecture") {
  for (const Group& group : all_groups()) {
    std::set<std::string> names;
    for (const Check& check : group.checks)
      CHECK_MESSAGE(names.insert(check.name).second, check.name);
  }
}

TEST_CASE("one group of the lecture can be asked for, and one that is not there is refused") {
  const std::vector<Group> groups = lecture_checks({.only = "9"});
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].id == "9");
  check_throws(ErrorKind::value, {"13", "self-test"}, [] { lecture_checks({.only = "13"}); });
  check_throws(ErrorKind::value, {"repeats 1"},
               [] { lecture_checks({.only = "9", .repeats = 1}); });
}

// ---- bounds that can fail -----------------------------------------------------------------------

TEST_CASE("no bound of the lecture lets a NaN pass, and each is bounded") {
  for (const Group& group : all_groups()) {
    for (const Check& check : group.checks) {
      INFO(group.id, " ", check.name);
      if (is_spread(check)) CHECK(check.lecture.value.has_value());
      else CHECK(!passes_with(check, not_a_number));
      CHECK((std::isfinite(check.bound.low) || std::isfinite(check.bound.high)));
    }
  }
}

TEST_CASE("the lecture's bounds tell its two sides apart: each fails with the other's figure") {
  const auto fails_with = [](const char* group, const char* name, const char* other) {
    INFO(group, ": ", name, " with ", other);
    CHECK(!passes_with(find(group, name), find(group, other).ours));
  };
  fails_with("1", "words that look at themselves, S = X X^T, %",
             "words that look at themselves, projected, %");
  fails_with("1", "|S - S^T| / |S|, S = X X^T", "|S - S^T| / |S|, projected");
  fails_with("2", "largest |f(PX) - P f(X)|", "the same under the causal mask");
  for (const char* layer : {"4", "8", "12"}) {
    const std::string alone = std::string("attention alone, layer ") + layer;
    fails_with("4", alone.c_str(), (std::string("with residual, layer ") + layer).c_str());
    fails_with("4", alone.c_str(), "attention alone, layer 3");
  }
  fails_with("6", "largest under the causal mask", "largest without a mask");
  fails_with("8", "two heads of d / 2", "one head, best weights and best map");
  fails_with("8", "one head, many sequences: near 1/sqrt(2)",
             "one head, best weights and best map");
  fails_with("12", "3.1 mask before softmax: change by future",
             "3.1 mask after softmax: change by future");
  fails_with("12", "5.4 cache, steps 1 to 32", "5.4 no cache, steps 1 to 32");
  fails_with("self-test", "against SDPA, the mask turned round",
             "against SDPA, the mask not turned round");
}

TEST_CASE(
    "figures that are drawn pass as the lecture prints them, and fail when they are far off") {
  const struct {
    const char *group, *name, *below, *above;
  } figures[] = {
      {"1", "words that look at themselves, projected, %", "-2", "15"},
      {"1", "|S - S^T| / |S|, projected", "1.22", "1.50"},
      {"2", "the same under the causal mask", "2.1", "3.4"},
      {"6", "largest without a mask", "0.7", "1.8"},
      {"8", "one head, best weights and best map", "0.670", "0.707"},
  };
  for (const auto& figure : figures) {
    INFO(figure.group, " ", figure.name);
    const std::vector<Group> groups = lecture_checks({.only = figure.group});
    int found = 0;
    for (Check check : groups.at(0).checks) {
      if (check.name != figure.name) continue;
      ++found;
      CHECK(is_spread(check));
      CHECK(check.passed());
      check.lecture = figure.below;
      CHECK(!check.passed());
      check.lecture = figure.above;
      CHECK(!check.passed());
    }
    CHECK(found == 1);
  }
}

TEST_CASE("a figure of the lecture passes a spread only near it, give or take its last digit") {
  const Check near{"", "0.76", 0, spread(0.764, 0.81)};
  CHECK(near.passed());
  const Check below{"", "0.75", 0, spread(0.764, 0.81)};
  CHECK(!below.passed());
  const Check above{"", "0.82", 0, spread(0.764, 0.81)};
  CHECK(!above.passed());
  const Check words{"", "machine eps", 0, spread(0, 1)};
  CHECK(!words.passed());
}

TEST_CASE("the digits of a quoted figure say how far it may lie off") {
  const auto passes = [](const char* quote, double ours) {
    return Check{"", quote, ours, rounds_to(quote)}.passed();
  };
  CHECK(passes("2.2", 2.25));
  CHECK(!passes("2.2", 2.2501));
  CHECK(passes("84.2", 84.2105));
  CHECK(!passes("84.2", 84.1));
  CHECK(passes("2048", 2048.5));
  CHECK(!passes("2048", 2049));
  CHECK(Quote("2.2e-7").half_unit == doctest::Approx(5e-9));
  CHECK(Quote("4.1e-16").value == 4.1e-16);
  CHECK(!Quote("machine eps").value);
  CHECK(!Quote("").value);
}

TEST_CASE("draws are medians over 20 seeds, with the mean and deviation of their repeats") {
  // Seed s measures s: medians 9.5, 29.5, 49.5.
  std::vector<double> seen;
  const auto experiment = [&](Generator& generator) {
    seen.push_back(static_cast<double>(generator.state().key));
    return std::vector<double>{seen.back(), -1};
  };
  const std::vector<Draws> drawn = draw(3, experiment);
  REQUIRE(drawn.size() == 2);
  CHECK(seen.size() == 60);
  CHECK(drawn[0].median == 9.5);
  CHECK(drawn[0].largest == 19);
  CHECK(drawn[0].mean == doctest::Approx(29.5));
  CHECK(drawn[0].deviation == doctest::Approx(20));
  CHECK(drawn[1].deviation == 0);
  const std::vector<Draws> poisoned = draw([](Generator& generator) {
    return std::vector<double>{generator.state().key == 7 ? not_a_number : 1};
  });
  CHECK(std::isnan(poisoned[0].median));
  CHECK(std::isnan(poisoned[0].largest));
}

// ---- what the groups measure with ---------------------------------------------------------------

TEST_CASE("what least squares leaves is at right angles to every column") {
  Generator generator(3);
  const Tensor a = randn({12, 4}, f64, generator), b = randn({12, 3}, f64, generator);
  const Tensor left = least_squares_residual(a, b);
  CHECK(largest(matmul(transposed(a), left)) < 1e-13);
  CHECK(norm(left).item() > 0.1);
  CHECK(largest(least_squares_residual(a, matmul(a, randn({4, 3}, f64, generator)))) < 1e-13);
}

TEST_CASE("the rank of a product is that of its thinner factor") {
  Generator generator(4);
  for (const std::int64_t rank : {1, 3, 5}) {
    const Tensor a = randn({7, rank}, f64, generator), b = randn({rank, 5}, f64, generator);
    CHECK(numerical_rank(matmul(a, b)) == rank);
  }
  CHECK(numerical_rank(zeros({3, 4}, f64)) == 0);
}

TEST_CASE("rows with NaN are counted once each, and the largest of a NaN is NaN") {
  const Tensor x = tensor({{1, not_a_number, not_a_number}, {0, -2, 1}, {not_a_number, 0, 0}}, f64);
  CHECK(rows_with_nan(x) == 2);
  CHECK(std::isnan(largest(x)));
  CHECK(largest(narrow(x, 0, 1, 1)) == 2);
}

// ---- reports ------------------------------------------------------------------------------------

TEST_CASE("the lecture's table fits 100 columns and ends with the count") {
  const std::string text = table(all_groups());
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) CHECK_MESSAGE(line.size() <= 100, line);
  const Count total = count(all_groups());
  CHECK(line.empty());
  CHECK(text.ends_with("\n" + std::to_string(total.passed) + " passed, " +
                       std::to_string(total.failed) + " failed\n"));
}

TEST_CASE("the exit code of a report is 0 only if all checks pass") {
  std::vector<Group> groups = {{"1", "a title", "some sizes"}};
  groups[0].add("right", "0", 0, exactly(0));
  std::ostringstream out;
  CHECK(report(out, groups, false) == 0);
  CHECK(report(out, groups, true) == 0);
  groups[0].add("wrong", "0", 1e-16, exactly(0), "why");
  CHECK(report(out, groups, false) == 1);
  CHECK(report(out, groups, true) == 1);
  const std::string text = table(groups);
  CHECK(text.find("ok   right") != text.npos);
  CHECK(text.find("FAIL wrong") != text.npos);
  CHECK(text.find("why") != text.npos);
  CHECK(text.ends_with("1 passed, 1 failed\n"));
}

TEST_CASE("the lecture's JSON says what the table says") {
  std::ostringstream out;
  print_json(out, all_groups());
  const nlohmann::json report = nlohmann::json::parse(out.str());
  CHECK(report["format"] == "tapehead-lecture/1");
  CHECK(report["passed"] == count(all_groups()).passed);
  CHECK(report["failed"] == count(all_groups()).failed);
  REQUIRE(report["groups"].size() == all_groups().size());
  for (std::size_t g = 0; g < all_groups().size(); ++g) {
    const Group& group = all_groups()[g];
    const nlohmann::json& written = report["groups"][g];
    CHECK(written["id"] == group.id);
    REQUIRE(written["checks"].size() == group.checks.size());
    for (std::size_t c = 0; c < group.checks.size(); ++c) {
      const Check& check = group.checks[c];
      const nlohmann::json& entry = written["checks"][c];
      CHECK(entry["name"] == check.name);
      CHECK(entry["ours"] == check.ours);
      CHECK(entry["passed"] == check.passed());
      CHECK(entry["lecture"]["text"] == check.lecture.text);
      CHECK(entry["lecture"].contains("value") == check.lecture.value.has_value());
      CHECK(entry["bound"]["low"].is_null() == std::isinf(check.bound.low));
      CHECK(entry["bound"]["high"].is_null() == std::isinf(check.bound.high));
    }
  }
}
