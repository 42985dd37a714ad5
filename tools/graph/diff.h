// What changed between two graphs: a training step before and after an edit, for a reader or for
// continuous integration.
//
// Operations are aligned by module path, operation and occurrence: the third softmax of layers.0
// meets the third softmax of layers.0, wherever they stand. Slots are aligned by their operation,
// the slot's name, and its occurrence there. What was computed again within rules is aligned among
// itself.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tapehead::graph {

/// What changed from a graph A to a graph B.
struct Diff {
  /// Sums over a graph.
  struct Totals {
    std::int64_t activations = 0;  ///< saved_activation_bytes()
    std::int64_t others = 0;       ///< bytes of saved parameters and inputs
    std::int64_t peak = -1;        ///< -1 without events
    std::int64_t operations = 0;   ///< that were recorded, as in every report
    std::int64_t recomputed = 0;   ///< operations that ran again within rules
    std::int64_t flops = 0;        ///< of both
    bool operator==(const Totals&) const = default;
  };

  /// What became of an entry.
  enum class Kind : std::uint8_t { removed, added, changed, moved };

  /// An operation or a slot. It has changed when its description or its bytes differ. A slot has
  /// moved when it is gone from one place and is new in another, and keeps as much of the same
  /// shape and dtype under the same name.
  struct Entry {
    Kind kind = Kind::changed;  ///< what became of it
    /// "layers.0 softmax#3", of a slot "layers.0 softmax#3.y": as it is told apart from others of
    /// its name in its graph, with " (recomputed)" behind it where that is so
    std::string place = {};
    std::string module = {};  ///< the path that the place begins with
    std::string to = {};      ///< of a moved slot: where it is now
    /// Of a slot: the value's name, or what it shows of a named one, "embedding.weight[0:64]",
    /// before or else after.
    std::string name = {};
    /// Of a slot: the operation that made the value, past views and copies, and the parameter that
    /// it reads, "layers.0.linear1 linear with weight"; before or else after.
    std::string made_by = {};
    std::string before = {};        ///< shapes, dtypes, attributes; empty when it was not there
    std::string after = {};         ///< empty when it is not there any more
    std::int64_t bytes_before = 0;  ///< of a slot: retained
    std::int64_t bytes_after = 0;   ///< the same
    /// Of a slot: bytes_before, but 0 where another slot is counted for the same storage or packed
    /// form: one that moved, else one that did not change, else one that stands further up.
    std::int64_t counted_before = 0;
    std::int64_t counted_after = 0;  ///< the same of bytes_after
    bool operator==(const Entry&) const = default;
  };

  Totals before;             ///< of A
  Totals after;              ///< of B
  std::vector<Entry> nodes;  ///< removed and changed ones in the order of A, then added ones
  std::vector<Entry> slots;  ///< in the same order
  /// What the moved slots keep, each storage counted once, as counted_after.
  std::int64_t moved_bytes() const;
  /// Nothing above differs. (Names of values, strides and the order of events are not compared.)
  bool equal() const { return before == after && nodes.empty() && slots.empty(); }
};

/// Both graphs come from a tape or have passed validate().
Diff diff(const Graph& a, const Graph& b);

/// "removed", "added", "changed" or "moved".
std::string_view to_string(Diff::Kind kind);

/// @{
/// What the graphs are called, totals of both and the difference, how many entries of each kind
/// there are and what they add to the bytes saved, each storage counted once, so that this adds up
/// to the difference of the totals; then one entry a paragraph: "-" removed, "+" added, "~"
/// changed, ">" moved. In the text they stand by module, and what changed alike in neighbours that
/// have numbers for names stands once, as "layers.0-3 softmax.y x 4"; in other names there "*" is
/// for the numbers.
std::string diff_text(const Diff& diff, const std::string& before = "A",
                      const std::string& after = "B");
std::string diff_json(const Diff& diff);
/// @}

}  // namespace tapehead::graph
