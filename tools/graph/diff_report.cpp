// A Diff as text and as JSON.
#include <tapehead/core/count.h>
#include <tapehead/graph/diff.h>
#include <tapehead/graph/internal/fold.h>
#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/graph/internal/module_path.h>
#include <tapehead/graph/text.h>

#include <algorithm>
#include <map>
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
  text += total_line("operations", a.operations, b.operations);
  if (a.recomputed > 0 || b.recomputed > 0)
    text += total_line("operations, recomputed", a.recomputed, b.recomputed);
  return text + total_line("flops, with recomputation", a.flops, b.flops);
}

// "saved slots: 2 removed (-1,200 bytes), 1 moved (300 bytes)": of those that change, what changed.
// `rest`: what else changed in the bytes saved, when all of it that the entries tell is taken out.
std::string counts_text(const std::string& what, const std::vector<Diff::Entry>& entries,
                        std::int64_t rest) {
  std::string text;
  for (const Diff::Kind kind :
       {Diff::Kind::removed, Diff::Kind::added, Diff::Kind::changed, Diff::Kind::moved}) {
    std::int64_t count = 0, before = 0, after = 0;
    for (const Diff::Entry& entry : entries) {
      if (entry.kind != kind) continue;
      ++count;
      before = count_sum(before, entry.counted_before);
      after = count_sum(after, entry.counted_after);
    }
    if (count == 0) continue;
    if (kind != Diff::Kind::moved) rest -= after - before;
    const std::string bytes =
        kind == Diff::Kind::moved ? format_count(after) : signed_count(after - before);
    text += (text.empty() ? "" : ", ") + format_count(count) + " " + std::string(to_string(kind));
    if (before != 0 || after != 0) text += " (" + bytes + " bytes)";
  }
  if (rest != 0)
    text += (text.empty() ? "" : ", ") + ("storages shared otherwise (" + signed_count(rest)) +
            " bytes)";
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

// ---- entries by module -------------------------------------------------------------------------

// What changed in a module, and in those below it. `repeats` as in fold.h.
struct Changes {
  std::string name = {};
  std::int64_t repeats = 1;
  std::vector<const Diff::Entry*> entries = {};
  std::vector<Changes> children = {};
  std::map<std::string, std::size_t, std::less<>> by_name = {};  // of the children

  Changes& child(std::string_view of_name) {
    const auto [known, is_new] = by_name.try_emplace(std::string(of_name), children.size());
    if (is_new) children.push_back({.name = known->first});
    return children[known->second];
  }
};

// Of two entries that stand in the same place below their modules.
bool are_alike(const Diff::Entry& a, const Diff::Entry& b) {
  const auto same = [&](std::string Diff::Entry::*label) {
    return label_without_numbers(a.*label) == label_without_numbers(b.*label);
  };
  return a.kind == b.kind && a.place.substr(a.module.size()) == b.place.substr(b.module.size()) &&
         a.before == b.before && a.after == b.after && a.bytes_before == b.bytes_before &&
         a.bytes_after == b.bytes_after && same(&Diff::Entry::to) && same(&Diff::Entry::name) &&
         same(&Diff::Entry::made_by);
}

bool have_alike(const Changes& a, const Changes& b) {
  return std::ranges::equal(
             a.entries, b.entries,
             [](const auto* one, const auto* other) { return are_alike(*one, *other); }) &&
         std::ranges::equal(a.children, b.children, [](const Changes& one, const Changes& other) {
           return one.name == other.name && have_alike(one, other);
         });
}

// `place` and `repeats`: of the folded modules, 1 where there are none.
std::string entry_text(const Diff::Entry& entry, const std::string& place, std::int64_t repeats) {
  const bool was = !entry.before.empty(), is = !entry.after.empty(), several = repeats > 1;
  const std::string times = several ? " x " + format_count(repeats) : "";
  std::string text = std::string(1, sign_of(entry.kind)) + " " +
                     fit_label(place, page_columns - 2 - times.size()) + times + "\n";
  const auto label = [&](const std::string& word, const std::string& what) {
    if (!what.empty()) text += wrapped(word + (several ? label_without_numbers(what) : what), 4);
  };
  label("to ", entry.to);
  label("value: ", entry.name);
  label("made by: ", entry.made_by);
  const auto side = [&](const std::string& word, const std::string& what, std::int64_t bytes) {
    const std::string kept = "; keeps " + format_bytes(bytes) + (several ? " each" : "");
    return wrapped(word + what + (bytes > 0 ? kept : ""), 4);
  };
  if (entry.before == entry.after && entry.bytes_before == entry.bytes_after)
    return text + side("", entry.after, entry.bytes_after);
  if (was) text += side(is ? "before: " : "", entry.before, entry.bytes_before);
  if (is) text += side(was ? "after:  " : "", entry.after, entry.bytes_after);
  return text;
}

void add_text(const Changes& module, const std::string& path, std::int64_t repeats,
              std::string& text) {
  for (const Diff::Entry* entry : module.entries)
    text += entry_text(
        *entry, repeats > 1 ? path + entry->place.substr(entry->module.size()) : entry->place,
        repeats);
  for (const Changes& child : module.children)
    add_text(child, path.empty() ? child.name : path + "." + child.name, repeats * child.repeats,
             text);
}

std::string entries_text(const std::string& title, const std::vector<Diff::Entry>& entries) {
  if (entries.empty()) return "";
  std::string text = "\n" + title + "\n" + std::string(page_columns, '-') + "\n";
  Changes tree;
  for (const Diff::Entry& entry : entries) {
    Changes* module = &tree;
    for (const std::string_view name : split_path(entry.module)) module = &module->child(name);
    module->entries.push_back(&entry);
  }
  const auto merged = [](Changes&, std::int64_t) {};
  add_text(with_runs_folded(std::move(tree), have_alike, merged), "", 1, text);
  return text;
}

json to_json(const Diff::Totals& totals) {
  json all = {{"saved_activation_bytes", totals.activations},
              {"saved_other_bytes", totals.others},
              {"operations", totals.operations},
              {"recomputed_operations", totals.recomputed},
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
                   {"bytes_after", entry.bytes_after},
                   {"counted_before", entry.counted_before},
                   {"counted_after", entry.counted_after}});
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
  const auto saved = [](const Diff::Totals& totals) { return totals.activations + totals.others; };
  return head + counts_text("operations", diff.nodes, 0) +
         counts_text("saved slots", diff.slots, saved(diff.after) - saved(diff.before)) +
         entries_text("operations", diff.nodes) + entries_text("saved slots", diff.slots);
}

std::string diff_json(const Diff& diff) {
  const json report = {{"equal", diff.equal()},        {"before", to_json(diff.before)},
                       {"after", to_json(diff.after)}, {"nodes", to_json(diff.nodes)},
                       {"slots", to_json(diff.slots)}, {"moved_bytes", diff.moved_bytes()}};
  return json_report(report);
}

}  // namespace tapehead::graph
