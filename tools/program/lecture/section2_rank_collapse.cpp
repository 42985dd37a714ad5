// Section 2.2, rank collapse: attention averages, and the average of averages is one vector (Dong,
// Cordonnier and Loukas, "Attention is not all you need", 2021). What keeps tokens apart is the
// residual connection.
#include "draws.h"
#include "formulas.h"
#include "groups.h"

#include <tapehead/ops/binary.h>
#include <tapehead/ops/layer_norm.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/statistics.h>

#include <algorithm>
#include <cmath>

namespace tapehead::program::lecture {

namespace {

constexpr std::int64_t T = 32, d = 64;
constexpr std::size_t layers = 12;

enum Variant : std::size_t { alone, residual, residual_norm, variants };

std::size_t figure(Variant variant, std::size_t layer) { return layer * variants + variant; }

// |X - 1 mean(x)^T| / |X|: how far the rows are from all being one.
double distance_from_collapse(const Tensor& x) {
  return norm(x - mean(x, {0})).item() / norm(x).item();
}

// The three stacks share their input and their layers' projections.
std::vector<double> stack_layers(Generator& generator) {
  const Tensor input = randn({T, d}, f64, generator);
  Tensor x[variants] = {input, input, input};
  std::vector<double> distances(variants, distance_from_collapse(input));
  for (std::size_t layer = 1; layer <= layers; ++layer) {
    const Head attention = random_head(d, d, generator);
    x[alone] = attention(x[alone]);
    x[residual] = x[residual] + attention(x[residual]);
    x[residual_norm] = layer_norm(x[residual_norm] + attention(x[residual_norm]), {d});
    for (const Tensor& of_variant : x) distances.push_back(distance_from_collapse(of_variant));
  }
  return distances;
}

struct Row {
  Variant variant;
  const char* name;
  const char* quotes[7];  // of layers 0, 1, 2, 3, 4, 8, 12
};

constexpr std::size_t quoted_layers[] = {0, 1, 2, 3, 4, 8, 12};
constexpr Row table[] = {
    {alone,
     "attention alone",
     {"0.98", "0.76", "2.1e-2", "2.2e-7", "4.1e-16", "machine eps", "machine eps"}},
    {residual, "with residual", {"0.98", "0.97", "0.95", "0.90", "0.83", "0.47", "0.18"}},
    {residual_norm,
     "residual + LayerNorm",
     {"0.98", "0.97", "0.95", "0.91", "0.84", "0.38", "0.10"}},
};

// From this layer on attention alone leaves nothing but rounding.
constexpr std::size_t collapsed = 4;
constexpr double rounding = 1e-14;

// "layers 5 to 7: 0.77 0.7 0.6": what the lecture's table leaves out.
std::string between(std::size_t first, std::size_t last, Variant variant,
                    const std::vector<Draws>& drawn) {
  std::string text = "layers " + std::to_string(first) + " to " + std::to_string(last) + ":";
  for (std::size_t layer = first; layer <= last; ++layer)
    text += " " + format(drawn[figure(variant, layer)].median);
  return text;
}

void add_row(Group& group, const Row& row, const std::vector<Draws>& drawn) {
  for (std::size_t i = 0; i < std::size(quoted_layers); ++i) {
    const std::size_t layer = quoted_layers[i];
    const Draws& distance = drawn[figure(row.variant, layer)];
    const bool gone = row.variant == alone && layer >= collapsed;
    group.add(std::string(row.name) + ", layer " + std::to_string(layer), row.quotes[i],
              distance.median, gone ? at_most(rounding) : spread(distance));
  }
  group.checks.back().note =
      between(5, 7, row.variant, drawn) + "; " + between(9, 11, row.variant, drawn);
}

// The layer's distance over that of the layer before, the largest over layers.
double slowest_fall(Variant variant, const std::vector<Draws>& drawn) {
  double largest = 0;
  for (std::size_t layer = 1; layer <= layers; ++layer)
    largest = std::max(
        largest, drawn[figure(variant, layer)].median / drawn[figure(variant, layer - 1)].median);
  return largest;
}

}  // namespace

Group rank_collapse(int repeats) {
  const std::vector<Draws> drawn = draw(repeats, stack_layers);
  Group group{"4", "Rank collapse: |X - 1 mean(x)^T| / |X| by layer (section 2.2)",
              "T 32, d 64, one head, X from N(0, 1), projections from N(0, 1/d), no W_O"};
  for (const Row& row : table) add_row(group, row, drawn);
  double after = 0;
  for (std::size_t layer = collapsed; layer <= layers; ++layer)
    after = std::max(after, drawn[figure(alone, layer)].median);
  group.add("attention alone, any of layers 4 to 12", "machine eps", after, at_most(rounding));
  const auto exponent = [&](std::size_t layer) {
    return std::log(drawn[figure(alone, layer)].median);
  };
  group.add("exponent of layer 3 over that of layer 2", "doubles", exponent(3) / exponent(2),
            at_least(2));
  group.add("exponent of layer 4 over that of layer 3", "doubles", exponent(4) / exponent(3),
            at_least(2), "layer 4 is cut off by rounding");
  group.add("residual: slowest fall of a layer", "slow decay", slowest_fall(residual, drawn),
            at_most(1));
  group.add("residual + LayerNorm: slowest fall", "slow decay", slowest_fall(residual_norm, drawn),
            at_most(1));
  return group;
}

}  // namespace tapehead::program::lecture
