#include "growth.h"

#include <tapehead/core/memory.h>
#include <tapehead/core/parallel.h>
#include <tapehead/core/tape.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/text.h>
#include <tapehead/nn/attention.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/views.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "../commands.h"
#include "agreement.h"
#include "measure.h"
#include "scenario.h"

namespace tapehead::program::bench {
namespace {

using nlohmann::json;

constexpr double budget = 0.3;

// One size, and what it costs.
struct Row {
  std::int64_t size = 0;
  double seconds = 0;
  double bytes = 0;  // at the peak, or of the dump
};

struct Growth {
  const char* name;
  const char* size;   // what is varied
  const char* bytes;  // what is counted
  std::vector<std::int64_t> sizes;
  Row (*row)(std::int64_t size);
};

// The peak is that of tensors, over what stood before.
Row timed(std::int64_t size, const std::function<void()>& iterate) {
  trim();
  const std::int64_t before = memory_stats().live;
  reset_peak();
  const Timing timing = measure(iterate, budget);
  return {size, timing.median, static_cast<double>(memory_stats().peak - before)};
}

Row attention_row(std::int64_t time, nn::AttentionPath path) {
  std::vector<Tensor> qkv;
  for (int i = 0; i < 3; ++i) qkv.push_back(parameter(randn({8, time, 64})));
  const Tensor seed = randn({8, time, 64});
  return timed(time, [&] {
    const auto attend = [&] {
      return nn::attention(qkv[0], qkv[1], qkv[2], {.mask = nn::Mask::causal(), .path = path});
    };
    forward_backward(attend, qkv, seed);
  });
}

Row layers_row(std::int64_t layers) {
  const nn::Gpt gpt({.vocab_size = 65, .context = 64, .layers = layers, .heads = 4, .dim = 128});
  const Tensor tokens = randint(0, 65, {4, 64}), targets = randint(0, 65, {256});
  const std::vector<Tensor> parameters = gpt.parameters();
  return timed(layers, [&] {
    forward_backward(
        [&] {
          return cross_entropy(reshape(gpt(tokens), {256, 65}), targets);
        },
        parameters);
  });
}

Row nodes_row(std::int64_t nodes) {
  const Tensor x = parameter(ones({1})), step = full({1}, 1e-3);
  return timed(nodes, [&] { forward_backward([&] { return chain(x, step, nodes); }, {x}); });
}

Row dump_row(std::int64_t nodes) {
  const Tensor x = parameter(ones({1}));
  Tape tape;
  const Tensor y = chain(x, full({1}, 1e-3), nodes);
  const Graph graph = tape.graph();
  std::size_t size = 0;
  const Timing timing = measure([&] { size = graph::to_json(graph).size(); }, budget);
  return {nodes, timing.median, static_cast<double>(size)};
}

const std::vector<Growth>& growths() {
  static const std::vector<std::int64_t> times{128, 256, 512, 1024, 2048, 4096, 8192};
  static const std::vector<Growth> all = {
      {"attention composed", "time", "peak bytes", times,
       [](std::int64_t n) { return attention_row(n, nn::AttentionPath::composed); }},
      {"attention fused", "time", "peak bytes", times,
       [](std::int64_t n) { return attention_row(n, nn::AttentionPath::fused); }},
      {"gpt", "layers", "peak bytes", {1, 2, 4, 8, 16, 24}, layers_row},
      {"tape", "nodes", "peak bytes", {1000, 10000, 100000, 1000000}, nodes_row},
      {"dump", "nodes", "bytes of JSON", {1000, 10000, 100000}, dump_row},
  };
  return all;
}

// p when the figure grew as size^p.
std::string power(double from, double to, double size_ratio) {
  return graph::fixed(std::log(to / from) / std::log(size_ratio), 2);
}

std::string line(const Row& row, const Row* above) {
  using graph::right;
  const std::string ms = graph::fixed(row.seconds * 1e3, 3);
  const std::string each = graph::fixed(row.seconds * 1e9 / static_cast<double>(row.size), 1);
  std::string text = right(9, std::to_string(row.size)) + right(12, ms) + right(14, each) +
                     right(17, graph::format_count(static_cast<std::int64_t>(row.bytes)));
  if (!above) return text + "\n";
  const double ratio = static_cast<double>(row.size) / static_cast<double>(above->size);
  return text + right(12, power(above->seconds, row.seconds, ratio)) +
         right(13, power(above->bytes, row.bytes, ratio)) + "\n";
}

void print_table(const Growth& growth) {
  using graph::right;
  std::cout << growth.name << "\n"
            << right(9, growth.size) << right(12, "ms") << right(14, "ns for each")
            << right(17, growth.bytes) << right(12, "time ^") << right(13, "bytes ^") << std::endl;
  Row above;
  for (const std::int64_t size : growth.sizes) {
    const Row row = growth.row(size);
    std::cout << line(row, above.size ? &above : nullptr) << std::flush;
    above = row;
  }
}

void print_json(const Growth& growth) {
  json rows = json::array();
  for (const std::int64_t size : growth.sizes) {
    const Row row = growth.row(size);
    rows.push_back({{"size", row.size}, {"seconds", row.seconds}, {"bytes", row.bytes}});
  }
  std::cout << json{{"growth", growth.name}, {"varied", growth.size}, {"rows", rows}}.dump()
            << std::endl;
}

}  // namespace

int run_growth(int threads, bool as_json) {
  set_num_threads(threads);
  for (const Growth& growth : growths()) as_json ? print_json(growth) : print_table(growth);
  return done;
}

}  // namespace tapehead::program::bench
