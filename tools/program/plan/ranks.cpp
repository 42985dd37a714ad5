#include "ranks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "../option_rules.h"

namespace tapehead::program {
namespace {

const Graph::Value& input(const Graph& graph, const Graph::Node& node, std::size_t k) {
  return graph.values[static_cast<std::size_t>(node.inputs[k])];
}

std::int64_t flops_of_rule(const Graph& graph, const Graph::Node& node) {
  std::int64_t wanted = 0;
  for (std::size_t k = 0; k < std::min<std::size_t>(node.inputs.size(), 2); ++k)
    if (input(graph, node, k).leaf || input(graph, node, k).producer >= 0) ++wanted;
  return wanted * node.flops;
}

// A parameter's gradient, and the flops of the backward pass up to its completion.
struct Arrival {
  nn::Parcel parcel;
  std::size_t first_use = 0;  // among the parameters
  std::int64_t flops = 0;
};

struct Walk {
  std::int64_t forward_flops = 0, backward_flops = 0;
  std::vector<Arrival> arrivals;  // in the order in which they are complete
};

// f(storage, value) for each parameter that an operation uses.
template <class F>
void for_each_parameter(const Graph& graph, const Graph::Node& node, F&& f) {
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const Graph::Value& value = input(graph, node, k);
    if (graph.storages[static_cast<std::size_t>(value.storage)].category == Category::parameter)
      f(value.storage, value);
  }
}

// Every node has a step in which it was recorded and, later, one in which its rule ran. A rule that
// computes operations again consists of them and of their rules, and its own step follows theirs.
Walk walk_of(const Graph& graph) {
  Walk walk;
  bool recomputed = false;
  std::vector<bool> recorded(graph.nodes.size());
  std::map<std::int64_t, Arrival> by_storage;
  for (const Graph::Step& step : graph.steps) {
    if (step.node < 0) continue;
    const auto id = static_cast<std::size_t>(step.node);
    const Graph::Node& node = graph.nodes[id];
    if (!recorded[id]) {
      recorded[id] = true;
      (node.recomputed ? walk.backward_flops : walk.forward_flops) += node.flops;
    } else if (node.recomputed || !recomputed) {
      walk.backward_flops += flops_of_rule(graph, node);
    }
    recomputed = node.recomputed;
    if (node.recomputed) continue;
    for_each_parameter(graph, node, [&](std::int64_t storage, const Graph::Value& value) {
      const std::int64_t bytes = graph.storages[static_cast<std::size_t>(storage)].bytes;
      Arrival& arrival =
          by_storage.try_emplace(storage, Arrival{{value.dtype, bytes}, by_storage.size()})
              .first->second;
      arrival.flops = walk.backward_flops;
    });
  }
  for (const auto& [storage, arrival] : by_storage) walk.arrivals.push_back(arrival);
  std::sort(walk.arrivals.begin(), walk.arrivals.end(),
            [](const Arrival& a, const Arrival& b) { return a.first_use > b.first_use; });
  return walk;
}

}  // namespace

void check(const RanksSetup& setup) {
  const OptionRules rules("plan");
  rules.positive("--ranks", std::int64_t{setup.ranks});
  rules.must(setup.bytes_per_second > 0, option_text("--bandwidth", setup.bytes_per_second / 1e9),
             "be positive");
  rules.must(setup.latency >= 0, option_text("--latency", setup.latency * 1e6), "be at least 0");
  rules.must(setup.flops_per_second > 0, option_text("--gflops", setup.flops_per_second / 1e9),
             "be positive");
}

RanksCosts ranks_costs_of(const Graph& graph, const RanksSetup& setup) {
  check(setup);
  const Walk walk = walk_of(graph);
  const auto others = static_cast<double>(setup.ranks - 1);
  const double sent_part = 2 * others / static_cast<double>(setup.ranks);
  RanksCosts costs;
  std::vector<nn::Parcel> parcels;
  for (const Arrival& arrival : walk.arrivals) parcels.push_back(arrival.parcel);
  double link_free = 0;
  for (const std::vector<std::size_t>& bucket : nn::fill_buckets(parcels, setup.bucket_bytes)) {
    std::int64_t bytes = 0;
    for (const std::size_t i : bucket)  // and the mark whether it was reached
      bytes += parcels[i].bytes + static_cast<std::int64_t>(size_of(parcels[i].dtype));
    const double ready = static_cast<double>(walk.arrivals[bucket.back()].flops);
    const double takes = sent_part * static_cast<double>(bytes) / setup.bytes_per_second +
                         2 * others * setup.latency;
    link_free = std::max(link_free, ready / setup.flops_per_second) + takes;
    costs.communicating += takes;
    costs.gradient_bytes += bytes;
    ++costs.buckets;
  }
  const double backward = static_cast<double>(walk.backward_flops) / setup.flops_per_second;
  costs.sent_bytes = std::llround(sent_part * static_cast<double>(costs.gradient_bytes));
  costs.computing = static_cast<double>(walk.forward_flops) / setup.flops_per_second + backward;
  costs.exposed = setup.ranks > 1 ? std::max(link_free - backward, 0.0) : 0;
  costs.hidden = costs.communicating - costs.exposed;
  return costs;
}

}  // namespace tapehead::program
