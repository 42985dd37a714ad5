// Graph: a snapshot of a tape as plain data. It owns everything that it names and survives the
// tape. Ids count from 0 inside each graph, so equal tapes give equal graphs.
//
// Three words, never mixed: a value is *produced* by a node, *saved* for the backward pass by a
// slot, and its storage is *live* while it is allocated. Bytes are counted by unique storage.
#pragma once

#include <tapehead/core/dtype.h>
#include <tapehead/core/shape.h>
#include <tapehead/core/storage.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tapehead {

/// What a tape recorded and, from a Ledger, what was in memory when.
struct Graph {
  /// A non-tensor argument of an operation: "dim" = -1.
  struct Attribute {
    std::string name;                                             ///< as the operation calls it
    std::variant<bool, std::int64_t, double, std::string> value;  ///< its value
    bool operator==(const Attribute&) const = default;
  };

  /// Memory that one or more values lie in.
  struct Storage {
    std::int64_t bytes = 0;                   ///< requested
    Category category = Category::transient;  ///< what it ended up as
    std::string operation = {};               ///< what asked for it, when a ledger saw its birth
    bool operator==(const Storage&) const = default;
  };

  /// A tensor that the tape met: a leaf, a constant, a result, or something saved beside them.
  struct Value {
    std::string name;            ///< empty when it has none
    DType dtype = DType::f32;    ///< of its elements
    Shape shape;                 ///< its sizes
    Strides strides;             ///< in elements
    std::int64_t offset = 0;     ///< in elements
    std::int64_t storage = 0;    ///< id of the one that it lies in
    std::int64_t producer = -1;  ///< the node that made it, -1 when it was not made on this tape
    bool leaf = false;           ///< whether it is a parameter
    bool operator==(const Value&) const = default;
  };

  /// A recorded operation.
  struct Node {
    std::string operation;              ///< its name: "softmax"
    std::string module;                 ///< dotted path; empty outside any module
    std::vector<Attribute> attributes;  ///< its non-tensor arguments
    std::vector<std::int64_t> inputs;   ///< ids of values
    std::int64_t output = 0;            ///< id of a value
    std::int64_t flops = 0;             ///< of matrix products in the forward computation
    /// It computes in bf16 or f16, which only a dry run lets pass: its figures are planned, and no
    /// real run has proven them.
    bool planned = false;
    bool recomputed = false;  ///< by a tape inside a rule, as checkpointing does
    /// Positions in `inputs` of what nobody needs any more: mark_donatable() sets it.
    std::vector<std::int64_t> donatable = {};
    bool operator==(const Node&) const = default;
  };

  /// What SavedTensorHooks keep in the place of tensors: one for the slots that share it.
  struct Packing {
    std::string how;         ///< "bf16"
    std::int64_t bytes = 0;  ///< in memory
    bool operator==(const Packing&) const = default;
  };

  /// A tensor that an operation keeps for its backward rule.
  struct SavedSlot {
    std::int64_t node = 0;                 ///< id of the one whose rule reads it
    std::string slot;                      ///< its name among those of the operation: "y"
    std::string reason;                    ///< the formula that reads it
    std::vector<std::int64_t> for_inputs;  ///< the inputs whose wanted gradients read it
    std::int64_t value = 0;                ///< id of what was saved
    std::int64_t packing = -1;  ///< what is kept in the value's place, -1 when it is kept itself
    bool operator==(const SavedSlot&) const = default;
  };

  /// What a step is part of.
  enum class Phase : std::uint8_t { forward, backward, update, other };

  /// An operation recorded, a rule run, a parameter updated. What happened between two of these
  /// counts as part of the later one.
  struct Step {
    /// Forward for an operation, backward for a rule, update for a parameter.
    Phase phase = Phase::forward;
    std::string operation = {};  ///< its name
    std::string module = {};     ///< of an update, the parameter
    std::int64_t node = -1;      ///< the one recorded, or whose rule ran
    bool operator==(const Step&) const = default;
  };

  /// The birth or the death of a storage.
  struct Event {
    std::int64_t step = 0;     ///< in which it happened
    std::int64_t storage = 0;  ///< which one
    bool birth = false;        ///< else a death
    bool operator==(const Event&) const = default;
  };

  /// Rows by id: an id is a position here, as in the lists below.
  std::vector<Storage> storages;
  std::vector<Value> values;      ///< what the tape met
  std::vector<Node> nodes;        ///< operations, in the order in which they ran
  std::vector<Packing> packings;  ///< what hooks keep in the place of tensors
  std::vector<SavedSlot> saved;   ///< what the backward pass keeps, in the order of saving
  /// What a Ledger adds, with events and live_before; empty without one. In order.
  std::vector<Step> steps;
  std::vector<Event> events;     ///< in the order in which they happened
  std::int64_t live_before = 0;  ///< bytes that were live when the ledger began to watch
  bool operator==(const Graph&) const = default;

  /// Bytes of the distinct storages that saved slots keep, and that are not parameters or inputs,
  /// and of the packings: the activations. What the backward pass costs in memory. What recomputed
  /// nodes save does not count: it comes and goes within a rule.
  std::int64_t saved_activation_bytes() const;
  /// Bytes of all distinct storages and packings that saved slots keep. Of a ledger's graph this,
  /// and saved_activation_bytes() too, is a sum over all tapes that it watched: of several steps it
  /// was never live at once.
  std::int64_t saved_bytes() const;
  /// Sum of the flops of the nodes that are not recomputed; at most largest_count (count.h).
  std::int64_t forward_flops() const;
  /// The same of those that are.
  std::int64_t recomputed_flops() const;
};

/// "forward", "backward", "update" or "other".
std::string_view to_string(Graph::Phase phase);

/// Marks the donatable inputs of every node by the graph's events: those whose storage, which is
/// not the result's, dies after the node's step and before anything is born. Nobody else needs such
/// a buffer, so an operation that works in place could put its result there if it were handed over.
/// Without events none is marked.
void mark_donatable(Graph& graph);

}  // namespace tapehead
