// The snapshot of a tape as plain data: Tape::graph.
#include <tapehead/core/tape.h>

#include <algorithm>

namespace tapehead {

class Tape::Snapshot {
 public:
  Snapshot(const Tape& tape, std::vector<std::uint64_t>& storage_ids)
      : tape_(tape), storage_ids_(storage_ids) {}

  Graph take() {
    for (std::size_t i = 0; i < tape_.nodes_.size(); ++i) add_node(i);
    if (tape_.packings_)
      for (const PackingTable::Row& row : tape_.packings_->rows())
        graph_.packings.push_back({row.how, row.bytes});
    return std::move(graph_);
  }

 private:
  void add_node(std::size_t index) {
    const Node& node = *tape_.nodes_[index];
    Graph::Node& added = graph_.nodes.emplace_back();
    added.operation = node.operation();
    added.module = *node.path_;
    added.attributes = node.attributes();
    added.flops = node.flops();
    added.planned = node.is_planned();
    std::vector<std::int64_t> inputs;
    for (const Edge edge : node.inputs()) inputs.push_back(value(edge.value));
    graph_.nodes[index].inputs = std::move(inputs);
    graph_.nodes[index].output = value(node.output_);
    for (const Saved* saved = node.first_saved_; saved; saved = saved->next_)
      if (saved->was_saved_) add_saved(static_cast<std::int64_t>(index), node, *saved);
  }

  void add_saved(std::int64_t index, const Node& node, const Saved& saved) {
    Graph::SavedSlot slot{index, saved.name(), saved.reason(), {}, value(saved.value_), -1};
    for (std::size_t i = 0; i < node.inputs().size(); ++i)
      if (node.wants(i) && saved.is_read_for(i))
        slot.for_inputs.push_back(static_cast<std::int64_t>(i));
    if (saved.packed_) {
      slot.packing = saved.packed_->row;
      graph_.saved.push_back(std::move(slot));
      return;
    }
    Graph::Storage& storage = storage_of(graph_.values[static_cast<std::size_t>(slot.value)]);
    if (storage.category == Category::transient) storage.category = Category::saved;
    graph_.saved.push_back(std::move(slot));
  }

  Graph::Storage& storage_of(const Graph::Value& value) {
    return graph_.storages[static_cast<std::size_t>(value.storage)];
  }

  // Rows that show the same window of the same storage are one value: a constant gets a row at each
  // use. Recorded values and leaves keep their own.
  std::int64_t value(std::uint32_t row_index) {
    const ValueRow& row = tape_.values_[row_index];
    if (const auto found = by_row_.find(row_index); found != by_row_.end()) return found->second;
    Graph::Value added;
    if (const auto name = tape_.names_.find(row_index); name != tape_.names_.end())
      added.name = name->second;
    added.dtype = row.dtype;
    added.shape = tape_.shape_of(row_index);
    added.strides = tape_.strides_of(row_index);
    added.offset = row.offset;
    added.producer = row.producer;
    added.leaf = row.leaf;
    added.storage = storage(row);
    std::int64_t id = static_cast<std::int64_t>(graph_.values.size());
    const bool constant = row.producer < 0 && !row.leaf;
    if (constant) {
      std::vector<std::int64_t>& same_storage = constants_[added.storage];
      const auto same = std::find_if(same_storage.begin(), same_storage.end(), [&](auto other) {
        return graph_.values[static_cast<std::size_t>(other)] == added;
      });
      if (same != same_storage.end()) return by_row_[row_index] = *same;
      same_storage.push_back(id);
    }
    graph_.values.push_back(std::move(added));
    return by_row_[row_index] = id;
  }

  std::int64_t storage(const ValueRow& row) {
    const auto next = static_cast<std::int64_t>(graph_.storages.size());
    const auto [found, is_new] = by_storage_.emplace(row.storage, next);
    if (is_new) {
      graph_.storages.push_back({.bytes = row.storage_bytes, .category = row.category});
      storage_ids_.push_back(row.storage);
    }
    Graph::Storage& storage = graph_.storages[static_cast<std::size_t>(found->second)];
    if (row.leaf) storage.category = Category::parameter;
    return found->second;
  }

  const Tape& tape_;
  std::vector<std::uint64_t>& storage_ids_;
  Graph graph_;
  std::unordered_map<std::uint32_t, std::int64_t> by_row_;
  std::unordered_map<std::uint64_t, std::int64_t> by_storage_;
  std::unordered_map<std::int64_t, std::vector<std::int64_t>> constants_;
};

Graph Tape::snapshot(std::vector<std::uint64_t>& storage_ids) const {
  return Snapshot(*this, storage_ids).take();
}

Graph Tape::graph() const {
  check_own_thread("graph");
  std::vector<std::uint64_t> storage_ids;
  return snapshot(storage_ids);
}

}  // namespace tapehead
