#include "graph_commands.h"

#include <tapehead/core/error.h>
#include <tapehead/graph/assertion.h>
#include <tapehead/graph/diff.h>
#include <tapehead/graph/dot.h>
#include <tapehead/graph/html.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/lint.h>
#include <tapehead/graph/reports.h>
#include <tapehead/graph/text.h>
#include <tapehead/graph/trace.h>
#include <tapehead/graph/whatif.h>
#include <tapehead/nn/io/atomic_file.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "commands.h"

namespace tapehead::program {
namespace {

namespace fs = std::filesystem;

bool is_one_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code not_there;  // then they are one if their names are
  return fs::equivalent(a, b, not_there) ||
         fs::absolute(a).lexically_normal() == fs::absolute(b).lexically_normal();
}

// ValueError where what is written would take the place of what is read or of what else is written.
void check_files(const GraphCommand& command) {
  const auto check = [](const char* name, const std::string& written, const std::string& read) {
    if (is_one_file(written, read))
      throw ValueError("graph", std::string(name) + " " + written +
                                    " is a file that is read; write to another one");
  };
  for (const std::string& read : {command.file, command.other, command.attention}) {
    check("--out", command.out, read);
    check("--graph", command.graph, read);
  }
  if (is_one_file(command.graph, command.out))
    throw ValueError("graph", "--graph and --out are one file: " + command.out);
}

Graph read(const GraphCommand& command) {
  check_files(command);
  return graph::read_json(fs::path(command.file));
}

// Writes a report, and says that all is well.
int put(const GraphCommand& command, const std::string& report) {
  if (command.out.empty()) {
    std::cout << report;
    return done;
  }
  io::AtomicFile file("graph", command.out);
  file.write(report);
  file.commit();
  return done;
}

graph::SavedOrder order_of(const std::string& name) {
  if (name == "module") return graph::SavedOrder::module;
  return name == "operation" ? graph::SavedOrder::operation : graph::SavedOrder::bytes;
}

// The graph that would be, and what the patterns found.
struct WhatIf {
  Graph then;
  std::vector<graph::WhatIfMatch> matches;
};
WhatIf what_if_checkpointed(const Graph& now, const std::vector<std::string>& paths) {
  return {graph::checkpointed(now, paths), graph::checkpoint_matches(now, paths)};
}
WhatIf what_if_recomputed(const Graph& now, const std::vector<std::string>& slots) {
  return {graph::recomputed(now, slots), graph::recompute_matches(now, slots)};
}
WhatIf what_if_fused(const Graph& now, const std::vector<std::string>& paths) {
  return {graph::fused(now, paths), graph::fuse_matches(now, paths)};
}

// "T=128" as a name and a number.
std::pair<std::string, std::int64_t> size_of(const std::string& text) {
  const std::size_t sign = text.find('=');
  std::int64_t size = 0;
  const char* end = text.data() + text.size();
  if (sign == std::string::npos) throw ValueError("graph html", "no = in the size " + text);
  const auto [stop, error] = std::from_chars(text.data() + sign + 1, end, size);
  if (error != std::errc() || stop != end)
    throw ValueError("graph html", "no number in the size " + text);
  return {text.substr(0, sign), size};
}

bool has_dim(const Graph& all, std::int64_t size) {
  return std::ranges::any_of(all.values, [&](const Graph::Value& value) {
    return std::find(value.shape.begin(), value.shape.end(), size) != value.shape.end();
  });
}

}  // namespace

int run_graph_summary(const GraphCommand& command) {
  const Graph all = read(command);
  return put(command, command.as_json ? graph::summary_json(all) : graph::summary_text(all));
}

int run_graph_saved(const GraphCommand& command) {
  const Graph all = read(command);
  graph::SavedSelection selection = command.selection;
  selection.order = order_of(command.order);
  const auto rows = graph::saved_rows(all, selection);
  return put(command,
             command.as_json ? graph::saved_json(all, rows) : graph::saved_text(all, rows));
}

int run_graph_timeline(const GraphCommand& command) {
  const Graph all = read(command);
  return put(command, command.as_json ? graph::timeline_json(all) : graph::timeline_text(all));
}

int run_graph_peak(const GraphCommand& command) {
  const Graph all = read(command);
  return put(command,
             command.as_json ? graph::peak_json(all) : graph::peak_text(all, command.limit));
}

int run_graph_flops(const GraphCommand& command) {
  const Graph all = read(command);
  return put(command, command.as_json ? graph::flops_json(all) : graph::flops_text(all));
}

int run_graph_dot(const GraphCommand& command) {
  return put(command, graph::to_dot(read(command)));
}

int run_graph_trace(const GraphCommand& command) {
  return put(command, graph::to_trace(read(command)));
}

int run_graph_diff(const GraphCommand& command) {
  const Graph before = read(command);
  const graph::Diff diff = graph::diff(before, graph::read_json(fs::path(command.other)));
  put(command, command.as_json ? graph::diff_json(diff)
                               : graph::diff_text(diff, command.file, command.other));
  return diff.equal() ? done : bad_news;
}

int run_graph_lint(const GraphCommand& command) {
  const Graph all = read(command);
  const std::vector<graph::Finding> findings = graph::lint(all);
  put(command, command.as_json ? graph::lint_json(all, findings) : graph::lint_text(all, findings));
  return findings.empty() ? done : bad_news;
}

int run_graph_assert(const GraphCommand& command) {
  const graph::Assertion assertion = graph::check_assertion(read(command), command.expression);
  put(command,
      command.as_json ? graph::assertion_json(assertion) : graph::assertion_text(assertion));
  return assertion.holds ? done : bad_news;
}

int run_graph_whatif(const GraphCommand& command) {
  if (!command.checkpoint.empty() + !command.recompute.empty() + !command.fuse.empty() != 1)
    throw ValueError("graph whatif", "give one of --checkpoint, --recompute, --fuse");
  const Graph now = read(command);
  const WhatIf what = !command.checkpoint.empty()  ? what_if_checkpointed(now, command.checkpoint)
                      : !command.recompute.empty() ? what_if_recomputed(now, command.recompute)
                                                   : what_if_fused(now, command.fuse);
  if (!command.graph.empty()) graph::write_json(what.then, fs::path(command.graph));
  return put(command, command.as_json ? graph::what_if_json(now, what.then, what.matches)
                                      : graph::what_if_text(now, what.then, what.matches));
}

int run_graph_html(const GraphCommand& command) {
  const Graph all = read(command);
  const std::optional<Graph> other = command.other.empty()
                                         ? std::nullopt
                                         : std::optional(graph::read_json(fs::path(command.other)));
  graph::HtmlOptions options{.title = command.title.empty() ? command.file : command.title,
                             .file = command.file,
                             .other = other ? &*other : nullptr,
                             .other_file = command.other,
                             .budgets = command.budgets};
  std::vector<std::string> sizes = command.sizes;
  sizes.insert(sizes.end(), command.more_sizes.begin(), command.more_sizes.end());
  for (const std::string& text : sizes) {
    const auto size = size_of(text);
    if (!options.sizes.insert(size).second)
      throw ValueError("graph html", "the size " + size.first + " is given twice");
    if (size.second > 1 && !has_dim(all, size.second) && !(other && has_dim(*other, size.second)))
      throw ValueError("graph html", "no dim of the graph is " + graph::format_count(size.second) +
                                         ", so " + size.first + " would stand nowhere");
  }
  if (!command.attention.empty())
    options.attention = io::read_file("graph html", command.attention);
  put(command, graph::to_html(all, options));
  if (!command.out.empty())
    std::cout << command.out << " opens in any browser, without a network\n";
  return done;
}

}  // namespace tapehead::program
