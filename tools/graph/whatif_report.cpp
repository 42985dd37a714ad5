// The figures of two graphs side by side.
#include <tapehead/core/count.h>
#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/internal/module_path.h>
#include <tapehead/graph/text.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/graph/whatif.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

namespace tapehead::graph {
namespace {

using nlohmann::json;

constexpr std::int64_t most_listed = 20;

struct Compared {
  const char *label, *key;
  std::int64_t before, after;
};

std::int64_t all_flops(const Graph& graph) {
  return count_sum(graph.forward_flops(), graph.recomputed_flops());
}

std::vector<Compared> figures(const Graph& before, const Graph& after) {
  std::vector<Compared> all = {
      {"saved activations, bytes", "saved_activation_bytes", before.saved_activation_bytes(),
       after.saved_activation_bytes()},
      {"all that is saved, bytes", "saved_bytes", before.saved_bytes(), after.saved_bytes()}};
  if (!before.events.empty() && !after.events.empty())
    all.push_back({"peak, bytes", "peak_bytes", timeline(before).peak, timeline(after).peak});
  all.push_back({"flops, with recomputation", "flops", all_flops(before), all_flops(after)});
  return all;
}

std::int64_t count_fused(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Graph::Node& node) {
    return !node.recomputed && node.operation == "fused_attention";
  });
}

// What the figures cannot show.
std::vector<std::string> notes(const Graph& before, const Graph& after) {
  if (count_fused(after) <= count_fused(before)) return {};
  return {
      "fused_attention's rule makes q k^T once more in the backward pass; that is no recorded "
      "product and not counted here"};
}

std::string shown(const std::string& name) { return name.empty() ? std::string(root_name) : name; }

// Modules of which one thing is to be told; a slot stands alone, with what it frees.
using Run = std::span<const WhatIfMatch>;

Run first_run(Run matches) {
  const auto end = std::ranges::find_if(matches, [&](const WhatIfMatch& match) {
    return match.note != matches.front().note || match.freed;
  });
  return matches.first(std::max<std::size_t>(1, static_cast<std::size_t>(end - matches.begin())));
}

std::string run_line(Run run) {
  std::string line = shown(run.front().name);
  if (run.size() > 1) line += (run.size() == 2 ? ", " : " to ") + shown(run.back().name);
  if (run.size() > 2) line += " (" + format_count(std::ssize(run)) + ")";
  if (const auto& freed = run.front().freed)
    line += *freed > 0 ? ": frees " + format_count(*freed) + " bytes" : ": frees nothing";
  return wrapped(line + (run.front().note.empty() ? "" : ": " + run.front().note), 2);
}

std::string matches_text(const std::vector<WhatIfMatch>& matches) {
  if (matches.empty()) return {};
  const auto first_that_stays = std::ranges::find_if(matches, &WhatIfMatch::stays);
  const std::int64_t changed = first_that_stays - matches.begin(),
                     stay = matches.end() - first_that_stays;
  std::string text = "\nmatched: " + format_count(changed) + "\n";
  Run rest(matches.begin(), first_that_stays);
  for (std::int64_t lines = 0; lines < most_listed && !rest.empty(); ++lines) {
    const Run run = first_run(rest);
    text += run_line(run);
    rest = rest.subspan(run.size());
  }
  if (!rest.empty()) text += "  and " + format_count(std::ssize(rest)) + " more\n";
  if (stay > 0)
    text += wrapped("left as they are: " + format_count(stay) + ", as " +
                        shown(first_that_stays->name) + ": " + first_that_stays->note,
                    0);
  return text;
}

}  // namespace

std::string what_if_text(const Graph& before, const Graph& after,
                         const std::vector<WhatIfMatch>& matches) {
  std::string text = left(28, "figure") + right(24, "now") + right(24, "then") +
                     right(24, "difference") + "\n" + std::string(page_columns, '-') + "\n";
  for (const Compared& figure : figures(before, after)) {
    const std::int64_t change = figure.after - figure.before;
    text += left(28, figure.label) + right(24, format_count(figure.before)) +
            right(24, format_count(figure.after)) +
            right(24, (change > 0 ? "+" : "") + format_count(change)) + "\n";
  }
  for (const std::string& note : notes(before, after)) text += wrapped(note, 2);
  return text + matches_text(matches);
}

std::string what_if_json(const Graph& before, const Graph& after,
                         const std::vector<WhatIfMatch>& matches) {
  json report = {{"matched", json::array()}, {"notes", notes(before, after)}};
  for (const WhatIfMatch& match : matches)
    report["matched"].push_back({{"name", match.name},
                                 {"freed_bytes", match.freed ? json(*match.freed) : json()},
                                 {"note", match.note},
                                 {"stays", match.stays}});
  for (const Compared& figure : figures(before, after))
    report[figure.key] = {{"now", figure.before},
                          {"then", figure.after},
                          {"difference", figure.after - figure.before}};
  return json_report(report);
}

}  // namespace tapehead::graph
