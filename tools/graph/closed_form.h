// Closed forms: what a model costs as polynomials in its named sizes, found by running it without
// data at several sizes and interpolating exactly.
//
//     const std::vector<graph::Dimension> dimensions{{"B", 1, {1, 2, 3}},
//                                                    {"h", 1, {1, 2, 4}},
//                                                    {"T", 2, {3, 4, 5, 7}},
//                                                    {"d", 2, {8, 12, 16, 20}}};
//     const graph::GraphForms forms = graph::closed_forms(
//         [](std::span<const std::int64_t> sizes) {
//           const DryRun dry;
//           ...  // forward under a Tape with B, h, T and d = sizes[0], ..., sizes[3]
//           return tape.graph();
//         },
//         dimensions);
//     to_string(*forms.saved_activations);  // "4*B*h*T^2 + 20*B*T*d + T^2"
//
// A form is never a guess: it is the only polynomial of the degrees asked for that agrees with the
// runs on the grid, and it was compared with runs at sizes that are not on the grid. What no such
// polynomial describes has no form. A peak is the largest of several polynomials: its form holds in
// the range of sizes where the same one is the largest, so sample near the sizes of interest.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/graph/polynomial.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tapehead::graph {

/// A size that a model is given, and where it is sampled.
struct Dimension {
  std::string name;  ///< in forms: "T"
  int degree = 1;    ///< the highest exponent that a form may have
  /// Distinct. The first degree + 1 are combined with those of the other dimensions into the grid;
  /// the others, one at least, are for comparison. Where one size must divide another, as heads
  /// divide features, choose sizes of which any pair does.
  std::vector<std::int64_t> sizes;
};

/// One size for each dimension, in their order.
using DimensionSizes = std::span<const std::int64_t>;

/// Whole numbers by name. One that is missing for some sizes counts as 0 there.
using Quantities = std::map<std::string, std::int64_t>;

/// The form of each quantity that `measure` returned anywhere. It runs at every point of the grid,
/// at the first point with each of the other sizes in turn, and where all sizes are their
/// dimensions' last. ValueError: a dimension has a negative degree, sizes that are too few or not
/// distinct, or there is none. Errors of `measure` pass through.
std::map<std::string, std::optional<Polynomial>> closed_forms(
    const std::function<Quantities(DimensionSizes)>& measure,
    std::span<const Dimension> dimensions);

/// What the slots of one operation in one module save. Modules that differ only in numbers, as the
/// layers of a stack, stand together: "layers.*.self_attn".
struct SavedForm {
  std::string module;               ///< folded path
  std::string operation;            ///< its name
  std::int64_t occurrence = 1;      ///< which one it is of those with this name in its module
  bool is_one_of_several = false;   ///< whether there are others, in any of the modules
  std::string slot;                 ///< its name
  std::string reason;               ///< the formula that reads it
  std::optional<Polynomial> bytes;  ///< of the distinct storages and packings that it keeps
  /// What of that are activations which no earlier row keeps: over all rows these add up to
  /// saved_activations.
  std::optional<Polynomial> added;
};

/// The forms of a graph's figures; no value where there is none.
struct GraphForms {
  std::optional<Polynomial> saved_activations;  ///< Graph::saved_activation_bytes()
  std::optional<Polynomial> saved;              ///< Graph::saved_bytes()
  std::optional<Polynomial> flops;       ///< of nodes that are not recomputed: the forward pass
  std::optional<Polynomial> recomputed;  ///< flops of those that are
  std::optional<Polynomial> peak;        ///< of a graph that a Ledger made
  std::vector<SavedForm> slots;          ///< in the order in which they are first saved
  std::map<std::string, std::optional<Polynomial>> others;  ///< of what the caller measured
};

/// The forms of a model whose graph for given sizes, best of a dry run, `model` returns, and of
/// what `others` measures on it. Errors as above.
GraphForms closed_forms(const std::function<Graph(DimensionSizes)>& model,
                        std::span<const Dimension> dimensions,
                        const std::function<Quantities(const Graph&)>& others = {});

/// One line: "layers.*.self_attn softmax.y", "layers.*.self_attn matmul#2.a" of several.
std::string to_string(const SavedForm& form);

}  // namespace tapehead::graph
