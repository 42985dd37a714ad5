#include <tapehead/graph/dot.h>
#include <tapehead/graph/internal/module_path.h>
#include <tapehead/graph/text.h>

#include <map>
#include <string_view>
#include <vector>

namespace tapehead::graph {
namespace {

std::string in_quotes(std::string_view text) {
  std::string all = "\"";
  for (const char c : fit_label(text, 120)) {
    if (c == '"' || c == '\\') all += '\\';
    all += c;
  }
  return all + "\"";
}

class Drawing {
 public:
  explicit Drawing(const Graph& graph) : graph_(graph) {}

  std::string draw() {
    text_ = "digraph tapehead {\n  node [shape=box];\n";
    Module root;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Module* module = &root;
      for (const std::string_view name : split_path(graph_.nodes[i].module))
        module = &module->children[name];
      module->nodes.push_back(i);
    }
    draw_module(root, 1);
    draw_values();
    draw_edges();
    return std::move(text_) + "}\n";
  }

 private:
  struct Module {
    std::map<std::string_view, Module> children;
    std::vector<std::size_t> nodes;
  };

  void draw_module(const Module& module, std::size_t depth) {
    const std::string indent(2 * depth, ' ');
    for (const std::size_t node : module.nodes)
      text_ +=
          indent + "n" + std::to_string(node) + " [label=" + label(graph_.nodes[node]) + "];\n";
    for (const auto& [name, child] : module.children) {
      text_ += indent + "subgraph cluster_" + std::to_string(clusters_++) + " {\n" + indent +
               "  label=" + in_quotes(name) + ";\n";
      draw_module(child, depth + 1);
      text_ += indent + "}\n";
    }
  }

  std::string label(const Graph::Node& node) const {
    const Graph::Value& output = graph_.values[static_cast<std::size_t>(node.output)];
    return in_quotes(node.operation + " " + to_string(output.shape));
  }

  void draw_values() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Graph::Value& value = graph_.values[i];
      if (value.producer >= 0) continue;
      text_ += "  v" + std::to_string(i) + " [shape=ellipse, label=" +
               in_quotes((value.name.empty() ? "" : value.name + " ") + to_string(value.shape)) +
               "];\n";
    }
  }

  void draw_edges() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      for (const std::int64_t input : graph_.nodes[i].inputs)
        text_ += "  " + source(input) + " -> n" + std::to_string(i) + ";\n";
    for (const Graph::SavedSlot& slot : graph_.saved)
      text_ += "  " + source(slot.value) + " -> n" + std::to_string(slot.node) +
               " [style=dashed, label=" + in_quotes(slot.slot) + "];\n";
  }

  std::string source(std::int64_t value) const {
    const std::int64_t producer = graph_.values[static_cast<std::size_t>(value)].producer;
    return producer >= 0 ? "n" + std::to_string(producer) : "v" + std::to_string(value);
  }

  const Graph& graph_;
  std::string text_;
  std::size_t clusters_ = 0;
};

}  // namespace

std::string to_dot(const Graph& graph) { return Drawing(graph).draw(); }

}  // namespace tapehead::graph
