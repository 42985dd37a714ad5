// How reports name what stands in a graph.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::graph {

/// "layers.0 softmax"; the operation alone outside any module.
std::string place(std::string_view operation, std::string_view module);

/// "matmul#2": the name, and which one it is where it is one of several.
std::string numbered(std::string_view name, std::int64_t occurrence, bool is_one_of_several);

/// The names of a graph's operations and slots, by which no two are mistaken for one another. Of
/// several operations of one name in a module each has its number, from 1, and so has each of
/// several slots of one name in an operation; what shares its name with none has no number. What
/// was computed again within rules is counted among itself. The graph must outlive it.
class Labels {
 public:
  explicit Labels(const Graph& graph);

  const Graph& graph() const { return graph_; }
  /// Which one the node is of those with its operation in its module, from 1.
  std::int64_t occurrence(std::int64_t node) const {
    return nodes_[static_cast<std::size_t>(node)].occurrence;
  }
  /// Whether there are several of these.
  bool is_one_of_several(std::int64_t node) const {
    return nodes_[static_cast<std::size_t>(node)].is_one_of_several;
  }
  /// "layers.0.self_attn matmul#2".
  std::string node(std::int64_t id) const;
  /// "layers.0.self_attn matmul#2.b"; `index` is in graph.saved.
  std::string slot(std::int64_t index) const;
  /// "layers.0.self_attn matmul.b": what slots that differ in their numbers alone have in common.
  std::string slot_without_numbers(std::int64_t index) const;

 private:
  struct Number {
    std::int64_t occurrence = 1;
    bool is_one_of_several = false;
  };
  template <class Key>
  static std::vector<Number> numbers_of(const std::vector<Key>& keys);

  const Graph& graph_;
  std::vector<Number> nodes_, slots_;
};

/// "backward of linear in layers.1.linear2".
std::string describe(const Graph::Step& step);

/// "step 72, backward of linear in layers.1.linear2"; "before the first step" for a negative index.
std::string place_of_step(const Graph& graph, std::int64_t index);

/// "f32 (2, 3)".
std::string describe(const Graph::Value& value);

/// "layers.*.self_attn" of "layers.3.self_attn": modules that differ in numbers alone are one.
std::string without_numbers(std::string_view path);

/// "layers.* add#2" of "layers.3 add#2": the same of each word of a label.
std::string label_without_numbers(std::string_view label);

}  // namespace tapehead::graph
