#include <tapehead/core/error.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/attention_chain.h>
#include <tapehead/graph/internal/keepers.h>
#include <tapehead/graph/internal/regions.h>
#include <tapehead/nn/mask.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace tapehead::graph {
namespace {

// Looks for chains whose tensors nobody else reads or keeps.
class Finder {
 public:
  Finder(const Graph& graph, const Keepers& keepers)
      : graph_(graph), keepers_(keepers), reader_(graph.values.size(), nobody) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      for (const std::int64_t read : graph.nodes[n].inputs)
        reader_[at(read)] = reader_[at(read)] == nobody ? static_cast<std::int64_t>(n) : several;
  }

  std::optional<AttentionChain> around(std::int64_t softmax) const {
    AttentionChain chain;
    chain.softmax = softmax;
    std::int64_t below = maker(softmax, 0, softmax);
    if (is(below, "masked_fill", 1)) chain.mask = std::exchange(below, maker(below, 0, below));
    if (is(below, "add", 2)) {
      chain.bias_value = graph_.nodes[at(below)].inputs[1];
      chain.bias = std::exchange(below, maker(below, 0, below));
    }
    chain.scores = below;
    std::int64_t weights = softmax;
    if (is(reader(softmax), "dropout", 1)) weights = chain.dropout = reader(softmax);
    chain.product = reader(weights);
    if (!is(chain.scores, "matmul", 2) || !is(chain.product, "matmul", 2) ||
        graph_.nodes[at(chain.product)].inputs[0] != graph_.nodes[at(weights)].output)
      return {};
    chain.transpose = maker(chain.scores, 1, chain.scores);
    if (!is(chain.transpose, "transpose", 1)) return {};
    chain.q = graph_.nodes[at(chain.scores)].inputs[0];
    chain.k = graph_.nodes[at(chain.transpose)].inputs[0];
    chain.v = graph_.nodes[at(chain.product)].inputs[1];
    chain.merge = find_merge(chain.product);
    if (!is_private(chain)) return {};
    return chain;
  }

 private:
  static constexpr std::int64_t nobody = -1, several = -2;

  bool is(std::int64_t node, std::string_view operation, std::size_t inputs) const {
    return node >= 0 && graph_.nodes[at(node)].operation == operation &&
           graph_.nodes[at(node)].inputs.size() >= inputs;
  }
  // What made an input of the node, if `by` alone reads it.
  std::int64_t maker(std::int64_t node, std::size_t input, std::int64_t by) const {
    if (node < 0 || graph_.nodes[at(node)].inputs.size() <= input) return -1;
    const std::int64_t value = graph_.nodes[at(node)].inputs[input];
    const std::int64_t made_by = graph_.values[at(value)].producer;
    return reader_[at(value)] == by && made_by < node ? made_by : -1;
  }
  std::int64_t reader(std::int64_t node) const {
    const std::int64_t next = reader_[at(graph_.nodes[at(node)].output)];
    return next > node ? next : -1;
  }
  // The copy behind views of the result.
  std::int64_t find_merge(std::int64_t node) const {
    const std::int64_t result = storage_of_output(node);
    while ((node = reader(node)) >= 0)
      if (storage_of_output(node) != result) return is(node, "reshape", 1) ? node : -1;
    return -1;
  }
  std::int64_t storage_of_output(std::int64_t node) const {
    return graph_.values[at(graph_.nodes[at(node)].output)].storage;
  }
  // No slot outside keeps the scores or the weights.
  bool is_private(const AttentionChain& chain) const {
    const std::vector<std::int64_t> nodes = chain.nodes();
    for (const std::int64_t node : nodes) {
      if (node == chain.product || node == chain.transpose) continue;
      for (const std::int64_t slot : keepers_.of_storage(storage_of_output(node)))
        if (std::find(nodes.begin(), nodes.end(), graph_.saved[at(slot)].node) == nodes.end())
          return false;
    }
    return true;
  }

  const Graph& graph_;
  const Keepers& keepers_;
  std::vector<std::int64_t> reader_;  // of each value
};

}  // namespace

std::vector<std::int64_t> AttentionChain::nodes() const {
  std::vector<std::int64_t> all;
  for (const std::int64_t n : {transpose, scores, bias, mask, softmax, dropout, product})
    if (n >= 0) all.push_back(n);
  return all;
}

std::vector<AttentionChain> chains_to_fuse(const Graph& graph,
                                           const std::vector<std::string>& paths) {
  const Keepers keepers(graph);
  const Finder finder(graph, keepers);
  std::map<std::int64_t, AttentionChain> chains;  // by softmax
  for (const std::string& path : paths) {
    bool any = false;
    for (const Region& region : find_regions("whatif", graph, path))
      for (std::int64_t n = region.first; n <= region.last; ++n)
        if (graph.nodes[at(n)].operation == "softmax" && !graph.nodes[at(n)].inputs.empty())
          if (std::optional<AttentionChain> chain = finder.around(n)) {
            chains.emplace(n, *chain);
            any = true;
          }
    if (!any) throw ValueError("whatif", "no composed attention in \"" + path + "\"");
  }
  std::vector<AttentionChain> all;
  for (const auto& [softmax, chain] : chains) all.push_back(chain);
  return all;
}

bool is_triangle(const Graph& graph, const Graph::SavedSlot& slot) {
  return value_of(graph, slot).name == nn::causal_mask_name;
}

}  // namespace tapehead::graph
