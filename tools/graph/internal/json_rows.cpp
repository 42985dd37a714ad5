#include <tapehead/core/dtype.h>
#include <tapehead/core/storage.h>
#include <tapehead/graph/internal/json_rows.h>
#include <tapehead/graph/timeline.h>

#include <array>

namespace tapehead::graph {

Graph::Attribute read_attribute(JsonRow& row) {
  Graph::Attribute attribute;
  attribute.name = row.text("name");
  const std::string type = row.text("type");
  if (type == "bool") attribute.value = row.truth("value");
  else if (type == "int") attribute.value = row.integer("value");
  else if (type == "string") attribute.value = row.text("value");
  else if (type == "float") attribute.value = row.floating("value");
  else row.fail("type", "is not one of bool, int, float, string");
  row.finish();
  return attribute;
}

void read_row(JsonRow& row, Graph::Node& node) {
  node.attributes = row.attributes("attributes");
  node.operation = row.text("operation");
  node.module = row.text("module");
  node.inputs = row.integers("inputs");
  node.output = row.integer("output");
  node.flops = row.integer("flops");
  if (row.has("donatable")) node.donatable = row.integers("donatable");
  if (row.has("planned")) node.planned = row.truth("planned");
  if (row.has("recomputed")) node.recomputed = row.truth("recomputed");
}

void read_row(JsonRow& row, Graph::Packing& packing) {
  packing.how = row.text("how");
  packing.bytes = row.integer("bytes");
}

void read_row(JsonRow& row, Graph::SavedSlot& slot) {
  slot.node = row.integer("node");
  slot.slot = row.text("slot");
  slot.reason = row.text("reason");
  slot.for_inputs = row.integers("for_inputs");
  slot.value = row.integer("value");
  if (row.has("packing") && (slot.packing = row.integer("packing")) < 0)
    row.fail("packing", "is negative; without one the key is left out");
}

void read_row(JsonRow& row, Graph::Storage& storage) {
  storage.bytes = row.integer("bytes");
  storage.category = row.one_of("category", categories);
  if (row.has("operation")) storage.operation = row.text("operation");
}

void read_row(JsonRow& row, Graph::Step& step) {
  using Phase = Graph::Phase;
  static constexpr std::array phases = {Phase::forward, Phase::backward, Phase::update,
                                        Phase::other};
  step.phase = row.one_of("phase", phases);
  step.operation = row.text("operation");
  step.module = row.text("module");
  step.node = row.integer_or_null("node", -1);
}

void read_row(JsonRow& row, Graph::Event& event) {
  event.step = row.integer("step");
  event.storage = row.integer("storage");
  event.birth = row.truth("birth");
}

void read_row(JsonRow& row, Graph::Value& value) {
  static constexpr std::array dtypes = {DType::f32, DType::f64, DType::bf16,
                                        DType::f16, DType::i64, DType::boolean};
  value.name = row.text("name");
  value.dtype = row.one_of("dtype", dtypes);
  value.shape = row.dims("shape");
  value.strides = row.dims("strides");
  value.offset = row.integer("offset");
  value.storage = row.integer("storage");
  value.producer = row.integer_or_null("producer", -1);
  value.leaf = row.truth("leaf");
}

}  // namespace tapehead::graph
