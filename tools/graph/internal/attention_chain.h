// Composed attention among the operations of a graph.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tapehead::graph {

/// The operations of one composed attention, as nodes: softmax of a product with a transposed k, a
/// bias added to it and a mask filled in, then dropout and the product with v. -1 where it goes
/// without.
struct AttentionChain {
  std::int64_t transpose = -1, scores = -1, bias = -1, mask = -1, softmax = -1, dropout = -1,
               product = -1;
  std::int64_t q = -1, k = -1, v = -1, bias_value = -1;  ///< values
  std::int64_t merge = -1;  ///< the reshape that copies to merge the heads, which is not part of it

  std::vector<std::int64_t> nodes() const;
};

/// The chains in the modules that the paths match whose scores and weights nobody else reads or
/// keeps, each once and in order. ValueError: a path matches no module, or none with a chain.
std::vector<AttentionChain> chains_to_fuse(const Graph& graph,
                                           const std::vector<std::string>& paths);

/// Of the slot that keeps a chain's mask: whether it is a triangle, of which the fused kernel needs
/// no tensor: a mask that has the name of one (nn/mask.h).
bool is_triangle(const Graph& graph, const Graph::SavedSlot& mask);

}  // namespace tapehead::graph
