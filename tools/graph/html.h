// The tape viewer: a graph as one HTML page for people who would rather look than read. The page
// opens from a file, asks nothing of any network, and computes every figure itself from the graph
// that it holds; tools/graph/viewer/ has its sources.
//
// The data stand in elements that no browser runs, with every character escaped that could end one:
// names are text, whatever they say. The page's own policy lets no other script run and nothing be
// loaded. The same graph gives the same bytes.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tapehead::graph {

/// What a page shows beside its graph.
struct HtmlOptions {
  std::string title = {};           ///< stands at the top
  std::string file = "graph.json";  ///< of the graph, in the commands that the page tells
  const Graph* other = nullptr;     ///< the page opens with what changed from the graph to this one
  std::string other_file = {};      ///< of the other graph, as the page names it
  std::map<std::string, std::int64_t> sizes = {};  ///< letters for dims: {{"B", 8}, {"T", 128}}
  std::vector<std::string> budgets = {};  ///< assertions (assertion.h), held to both graphs
  std::string attention = {};             ///< maps in the format tapehead-attention/1, see there
};

/// The page. ValueError: a budget is malformed or names nothing in the graph (assertion.h),
/// `attention` is no such text or has maps of a module that the graph lacks, a letter is no single
/// name, or a size is not positive. The graphs come from a tape or have passed validate().
std::string to_html(const Graph& graph, const HtmlOptions& options = {});

}  // namespace tapehead::graph
