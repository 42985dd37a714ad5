// What was recorded, as hashes: Tape::digests.
#include <tapehead/core/tape.h>

#include <bit>

namespace tapehead {
namespace {

class Hash {
 public:
  // The finaliser of SplitMix64 (Steele, Lea and Flood 2014) between additions: order counts.
  void add(std::uint64_t word) {
    state_ += word + 0x9E3779B97F4A7C15;
    state_ = (state_ ^ state_ >> 30) * 0xBF58476D1CE4E5B9;
    state_ = (state_ ^ state_ >> 27) * 0x94D049BB133111EB;
    state_ ^= state_ >> 31;
  }
  void add(std::string_view text) {
    for (const char c : text) add(std::uint64_t{static_cast<unsigned char>(c)});
    add(std::uint64_t{text.size()});
  }
  void add(const Graph::Attribute& attribute) {
    add(std::string_view(attribute.name));
    add(std::uint64_t{attribute.value.index()});
    std::visit([this](const auto& value) { add_value(value); }, attribute.value);
  }
  std::uint64_t value() const { return state_; }

 private:
  void add_value(bool value) { add(std::uint64_t{value}); }
  void add_value(std::int64_t value) { add(static_cast<std::uint64_t>(value)); }
  void add_value(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  void add_value(const std::string& value) { add(std::string_view(value)); }

  std::uint64_t state_ = 0;
};

}  // namespace

std::vector<Tape::Digest> Tape::digests(const Tensor& y) {
  check_own_thread("digests");
  const Edge result_edge = resolve("digests", y);
  std::unordered_map<std::uint32_t, std::uint64_t> leaf_numbers;
  for (const Tensor& leaf : leaves_)
    leaf_numbers.emplace(leaf_values_.at(leaf.impl()), leaf_numbers.size());
  const auto add_value = [&](Hash& hash, const Edge& edge) {
    hash.add(std::uint64_t{edge.tracked});
    if (!edge.tracked) return;
    const std::int64_t producer = values_[edge.value].producer;
    hash.add(static_cast<std::uint64_t>(producer));
    if (producer < 0) hash.add(leaf_numbers.at(edge.value));
  };
  std::vector<Digest> digests;
  for (const auto& node : nodes_) {
    Hash hash;
    hash.add(std::string_view(node->operation_));
    for (const Graph::Attribute& attribute : node->attributes()) hash.add(attribute);
    const ValueRow& output = values_[node->output_];
    hash.add(static_cast<std::uint64_t>(output.dtype));
    for (const std::int64_t size : shape_of(node->output_))
      hash.add(static_cast<std::uint64_t>(size));
    for (const Edge edge : node->inputs()) add_value(hash, edge);
    digests.push_back({node->operation_, hash.value()});
  }
  Hash result;
  add_value(result, result_edge);
  digests.push_back({"the result", result.value()});
  return digests;
}

}  // namespace tapehead
