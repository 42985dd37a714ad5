// What training on several ranks would cost in time, from the graph of one rank's step.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/nn/distributed.h>

#include <cstdint>

namespace tapehead::program {

struct RanksSetup {
  std::int64_t ranks = 2;
  double bytes_per_second = 1.25e9;  ///< from one rank to the next: 10 Gbit/s
  double latency = 50e-6;            ///< seconds that a message takes beside its bytes
  double flops_per_second = 20e9;    ///< that a rank reaches in matrix products
  std::int64_t bucket_bytes = nn::DataParallelOptions{}.bucket_bytes;
};

/// ValueError that names the option which cannot be.
void check(const RanksSetup& setup);

/// Seconds are estimates. A ring all-reduce of b bytes over N ranks takes
/// 2 (N - 1) / N * b / bandwidth + 2 (N - 1) * latency (Patarasuk and Yuan 2009). The forward pass
/// takes the time of its products' flops; a product's rule takes that once more for each of its two
/// operands that wants a gradient; elementwise work takes none. Buckets travel one after the other,
/// each from when the walk has completed its last gradient.
struct RanksCosts {
  /// In the buckets of a step: buffers that a rank has beside all that it would have alone.
  std::int64_t gradient_bytes = 0;
  std::int64_t buckets = 0;
  std::int64_t sent_bytes = 0;  ///< by each rank in a step
  double computing = 0;         ///< forward and backward pass
  double communicating = 0;
  double hidden = 0;   ///< of that, behind the backward pass
  double exposed = 0;  ///< the rest, in which every rank waits
};

/// Of a graph that training_step() (plan.h) returned.
RanksCosts ranks_costs_of(const Graph& graph, const RanksSetup& setup);

}  // namespace tapehead::program
