// The commands of `tapehead graph`: reports on graphs in files.
#pragma once

#include <tapehead/graph/saved_report.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tapehead::program {

/// What all of them are told.
struct GraphCommand {
  std::string file;
  std::string out = {};  ///< file to write; empty for stdout
  bool as_json = false;
  graph::SavedSelection selection = {};  ///< of graph saved
  std::string order = "bytes";           ///< of graph saved: bytes, module or operation
  std::size_t limit = 30;                ///< of graph peak
  std::string other = {};                ///< of graph diff: the second file
  std::string expression = {};           ///< of graph assert
  /// Of graph whatif: patterns for one of these changes.
  std::vector<std::string> checkpoint = {}, recompute = {}, fuse = {};
  std::string graph = {};  ///< of graph whatif: file for the graph that would be
  std::vector<std::string> sizes = {}, budgets = {};  ///< of graph html: "T=128", assertions
  std::vector<std::string> more_sizes = {};           ///< the sizes behind the first
  std::string attention = {}, title = {};             ///< of graph html: a file, the page's title
};
int run_graph_summary(const GraphCommand& command);
int run_graph_saved(const GraphCommand& command);
int run_graph_timeline(const GraphCommand& command);
int run_graph_peak(const GraphCommand& command);
int run_graph_flops(const GraphCommand& command);
int run_graph_dot(const GraphCommand& command);
int run_graph_trace(const GraphCommand& command);
/// Done when the files are equal, bad_news when they differ.
int run_graph_diff(const GraphCommand& command);
/// Done without findings, else bad_news.
int run_graph_lint(const GraphCommand& command);
/// Done when the expression holds, else bad_news.
int run_graph_assert(const GraphCommand& command);
int run_graph_whatif(const GraphCommand& command);
int run_graph_html(const GraphCommand& command);

}  // namespace tapehead::program
