// tapehead-lecture/1: the report for programs.
#include "report.h"

#include <nlohmann/json.hpp>

#include <ostream>

namespace tapehead::program::lecture {

namespace {

using nlohmann::json;  // writes null for what is not finite

json to_json(const Check& check) {
  json lecture = {{"text", check.lecture.text}};
  if (check.lecture.value) lecture["value"] = *check.lecture.value;
  json entry = {{"name", check.name},
                {"lecture", lecture},
                {"ours", check.ours},
                {"bound",
                 {{"on", check.bound.on == Bound::On::ours ? "ours" : "lecture"},
                  {"low", check.bound.low},
                  {"high", check.bound.high}}},
                {"passed", check.passed()}};
  if (!check.note.empty()) entry["note"] = check.note;
  return entry;
}

json to_json(const Group& group) {
  json checks = json::array();
  for (const Check& check : group.checks) checks.push_back(to_json(check));
  return {{"id", group.id},
          {"title", group.title},
          {"setting", group.setting},
          {"checks", std::move(checks)}};
}

}  // namespace

void print_json(std::ostream& out, const std::vector<Group>& groups) {
  json all = json::array();
  for (const Group& group : groups) all.push_back(to_json(group));
  const Count total = count(groups);
  const json report = {{"format", "tapehead-lecture/1"},
                       {"passed", total.passed},
                       {"failed", total.failed},
                       {"groups", std::move(all)}};
  out << report.dump(2) << "\n";
}

}  // namespace tapehead::program::lecture
