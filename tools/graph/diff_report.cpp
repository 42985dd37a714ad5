// A Diff as text and as JSON.
#include <tapehead/core/count.h>
#include <tapehead/graph/diff.h>
#include <tapehead/graph/json_text.h>
#include <tapehead/graph/text.h>

#include <nlohmann/json.hpp>

namespace tapehead::graph {
namespace {

using nlohmann::json;

std::string signed_count(std::int64_t count) {
  return (count > 0 ? "+" : "") + format_count(count);
}

std::string total_line(const std::string& what, std::int64_t before, std::int64_t after) {
  const auto known = [](std::int64_t count) { return count < 0 ? "unknown" : format_count(count); };
  return left(28, what) + right(24, known(before)) + right(24, known(after)) +
         right(24, before < 0 || after < 0 ? "unknown" : signed_count(after - before)) + "\n";
}

std::string totals_text(const Diff& diff) {
  const Diff::Totals &a = diff.before, &b = diff.after;
  std::string text = left(28, "total") + right(24, "before") + right(24, "after") +
                     right(24, "difference") + "\n" + std::string(page_columns, '-') + "\n" +
                     total_line("saved activations, bytes", a.activations, b.activations) +
                     total_line("saved parameters, inputs", a.others, b.others);
  if (a.peak >= 0 || b.peak >= 0) text += total_line("peak, bytes", a.peak, b.peak);
  return text + total_line("operations", a.operations, b.operations) +
         total_line("flops, with recomputation", a.flops, b.flops);
}

// "saved slots: 2 removed (-1,200 bytes), 1 moved (300 bytes)": of those that change, what changed.
std::string counts_text(const std::string& what, const std::vector<Diff::Entry>& entries) {
  std::string text;
  for (const Diff::Kind kind :
       {Diff::Kind::removed, Diff::Kind::added, Diff::Kind::changed, Diff::Kind::moved}) {
    std::int64_t count = 0, before = 0, after = 0;
    for (const Diff::Entry& entry : entries) {
      if (entry.kind != kind) continue;
      ++count;
      before = count_sum(before, entry.bytes_before);
      after = count_sum(after, entry.bytes_after);
    }
    if (count == 0) continue;
    const std::string bytes =
        kind == Diff::Kind::moved ? format_count(after) : signed_count(after - before);
    text += (text.empty() ? "" : ", ") + format_count(count) + " " + std::string(to_string(kind));
    if (before != 0 || after != 0) text += " (" + bytes + " bytes)";
  }
  return text.empty() ? text : wrapped(what + ": " + text, 0);
}

char sign_of(Diff::Kind kind) {
  switch (kind) {
    case Diff::Kind::removed: return '-';
    case Diff::Kind::added: return '+';
    case Diff::Kind::moved: return '>';
    case Diff::Kind::changed: break;
  }
  return '~';
}

std::string entry_text(const Diff::Entry& entry) {
  const bool was = !entry.before.empty(), is = !entry.after.empty();
  std::string text = std::string(1, sign_of(entry.kind)) + " " + fit_label(entry.place, 98) + "\n";
  if (!entry.to.empty()) text += wrapped("to " + entry.to, 4);
  if (!entry.name.empty()) text += wrapped("value: " + entry.name, 4);
  if (!entry.made_by.empty()) text += wrapped("made by: " + entry.made_by, 4);
  const auto side = [](const std::string& word, const std::string& what, std::int64_t bytes) {
    return wrapped(word + what + (bytes > 0 ? "; keeps " + format_bytes(bytes) : ""), 4);
  };
  if (entry.before == entry.after && entry.bytes_before == entry.bytes_after)
    return text + side("", entry.after, entry.bytes_after);
  if (was) text += side(is ? "before: " : "", entry.before, entry.bytes_before);
  if (is) text += side(was ? "after:  " : "", entry.after, entry.bytes_after);
  return text;
}

std::string entries_text(const std::string& title, const std::vector<Diff::Entry>& entries) {
  if (entries.empty()) return "";
  std::string text = "\n" + title + "\n" + std::string(page_columns, '-') + "\n";
  for (const Diff::Entry& entry : entries) text += entry_text(entry);
  return text;
}

json to_json(const Diff::Totals& totals) {
  json all = {{"saved_activation_bytes", totals.activations},
              {"saved_other_bytes", totals.others},
              {"operations", totals.operations},
              {"flops", totals.flops}};
  if (totals.peak >= 0) all["peak_bytes"] = totals.peak;
  return all;
}

json to_json(const std::vector<Diff::Entry>& entries) {
  json all = json::array();
  for (const Diff::Entry& entry : entries)
    all.push_back({{"kind", to_string(entry.kind)},
                   {"place", entry.place},
                   {"to", entry.to},
                   {"name", entry.name},
                   {"made_by", entry.made_by},
                   {"before", entry.before},
                   {"after", entry.after},
                   {"bytes_before", entry.bytes_before},
                   {"bytes_after", entry.bytes_after}});
  return all;
}

}  // namespace

std::string_view to_string(Diff::Kind kind) {
  switch (kind) {
    case Diff::Kind::removed: return "removed";
    case Diff::Kind::added: return "added";
    case Diff::Kind::moved: return "moved";
    case Diff::Kind::changed: break;
  }
  return "changed";
}

std::string diff_text(const Diff& diff, const std::string& before, const std::string& after) {
  const std::string head = wrapped("before: " + before, 0) + wrapped("after:  " + after, 0) + "\n" +
                           totals_text(diff) + "\n";
  if (diff.equal()) return head + "no difference\n";
  return head + counts_text("operations", diff.nodes) + counts_text("saved slots", diff.slots) +
         entries_text("operations", diff.nodes) + entries_text("saved slots", diff.slots);
}

std::string diff_json(const Diff& diff) {
  const json report = {{"equal", diff.equal()},        {"before", to_json(diff.before)},
                       {"after", to_json(diff.after)}, {"nodes", to_json(diff.nodes)},
                       {"slots", to_json(diff.slots)}, {"moved_bytes", diff.moved_bytes()}};
  return json_report(report);
}

}  // namespace tapehead::graph
