#include "graph_fuzz.h"

#include <tapehead/graph/assertion.h>
#include <tapehead/graph/diff.h>
#include <tapehead/graph/dot.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/lint.h>
#include <tapehead/graph/reports.h>
#include <tapehead/graph/saved_report.h>
#include <tapehead/graph/trace.h>
#include <tapehead/graph/whatif.h>
#include <tapehead/tapehead.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "training_steps.h"

namespace tapehead::tests {
namespace {

// ---- dumps to begin with -----------------------------------------------------------------------

Graph small_step(nn::AttentionPath path, bool checkpointed) {
  return watch([=] {
    const DryRun dry_run;
    const Tensor q = parameter(randn({1, 2, 3, 2})), k = parameter(randn({1, 2, 3, 2}));
    const auto attend = [path](const std::vector<Tensor>& in) {
      const ModuleScope scope("layers.0");
      const Tensor heads =
          nn::attention(in[0], in[1], in[1], {.mask = nn::Mask::causal(), .path = path});
      return nn::merge_heads(heads);
    };
    Tape tape;
    const Tensor y = checkpointed ? nn::checkpoint(attend, {q, k}) : attend({q, k});
    (void)tape.gradient(sum(exp(y)), {q, k});
  });
}

Graph packed_tape() {
  const nn::KeepInBf16 hooks;
  Tape tape;
  const Tensor w = parameter(randn({2, 3}));
  const Tensor y = softmax(mul(w, w), -1);
  return tape.graph();
}

// ---- mutations ---------------------------------------------------------------------------------

// Steele, Lea and Flood's SplitMix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(next() % std::max<std::size_t>(bound, 1));
  }
  template <class List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::uint64_t state_;
};

using Mutation = void (*)(std::string&, Random&);

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The first number behind a random place.
void change_number(std::string& text, Random& random) {
  static const std::array<std::string, 18> numbers = {
      "0",  "1",   "2",    "3",    "5",          "7",     "11",  "24",   "-1",
      "-2", "1.5", "1e30", "null", "4294967296", "false", "1e9", "\"\"", "18446744073709551616"};
  static const std::array<std::string, 3> limits = {
      std::to_string(std::numeric_limits<std::int64_t>::max()),
      std::to_string(std::numeric_limits<std::int64_t>::max() / 2),
      std::to_string(std::numeric_limits<std::int64_t>::min())};
  const std::size_t begin = text.find_first_of("0123456789", random.below(text.size()));
  if (begin == std::string::npos) return;
  std::size_t end = begin;
  while (end < text.size() && is_digit(text[end])) ++end;
  text.replace(begin, end - begin,
               random.below(4) == 0 ? random.one_of(limits) : random.one_of(numbers));
}

void change_small_number(std::string& text, Random& random) {
  const std::size_t at = text.find_first_of("0123456789", random.below(text.size()));
  if (at != std::string::npos) text[at] = static_cast<char>('0' + random.below(10));
}

void change_word(std::string& text, Random& random) {
  static const std::array<std::string, 14> words = {
      "true",    "forward", "backward", "update",  "f32",     "bool",    "parameter",
      "softmax", "matmul",  "saved",    "reshape", "a.b.c.d", "\\u0000", "\xc3\x28"};
  const std::size_t begin = text.find('"', random.below(text.size()));
  const std::size_t end = begin == std::string::npos ? begin : text.find('"', begin + 1);
  if (end != std::string::npos) text.replace(begin + 1, end - begin - 1, random.one_of(words));
}

void flip_truth(std::string& text, Random& random) {
  const std::size_t from = random.below(text.size());
  const std::size_t yes = text.find("true", from), no = text.find("false", from);
  if (yes < no) text.replace(yes, 4, "false");
  else if (no < yes) text.replace(no, 5, "true");
}

void change_byte(std::string& text, Random& random) {
  if (!text.empty()) text[random.below(text.size())] = static_cast<char>(random.next() & 0xff);
}

void truncate(std::string& text, Random& random) { text.resize(random.below(text.size())); }

void erase_part(std::string& text, Random& random) {
  if (!text.empty()) text.erase(random.below(text.size()), random.below(30));
}

void repeat_part(std::string& text, Random& random) {
  const std::size_t from = random.below(text.size());
  text.insert(random.below(text.size()), text.substr(from, random.below(60)));
}

// Rows stand one on a line: a row goes, or two change places.
void move_rows(std::string& text, Random& random) {
  const std::size_t a = text.find('\n', random.below(text.size()));
  const std::size_t b = a == std::string::npos ? a : text.find('\n', a + 1);
  const std::size_t c = b == std::string::npos ? b : text.find('\n', b + 1);
  if (c == std::string::npos) return;
  const std::string first = text.substr(a, b - a), second = text.substr(b, c - b);
  text.replace(a, c - a, random.below(2) == 0 ? second : second + first);
}

constexpr std::array<Mutation, 12> mutations = {
    change_number, change_number, change_small_number, change_small_number,
    change_word,   change_word,   flip_truth,          change_byte,
    truncate,      erase_part,    repeat_part,         move_rows};

// ---- reports -----------------------------------------------------------------------------------

void run(const std::function<void()>& report) {
  try {
    report();
  } catch (const ValueError&) {
    // No events, or nothing matches.
  }
}

void report_all(const Graph& graph) {
  run([&] { (void)graph::summary_text(graph); });
  run([&] { (void)graph::summary_json(graph); });
  run([&] { (void)graph::flops_text(graph); });
  run([&] { (void)graph::flops_json(graph); });
  run([&] { (void)graph::timeline_text(graph); });
  run([&] { (void)graph::timeline_json(graph); });
  run([&] { (void)graph::peak_text(graph, 3); });
  run([&] { (void)graph::peak_json(graph); });
  run([&] { (void)graph::to_dot(graph); });
  run([&] { (void)graph::to_trace(graph); });
  run([&] {
    const auto rows = graph::saved_rows(graph, {.order = graph::SavedOrder::module});
    (void)graph::saved_text(graph, rows);
    (void)graph::saved_json(graph, rows);
  });
  run([&] {
    const auto findings = graph::lint(graph);
    (void)graph::lint_text(graph, findings);
    (void)graph::lint_json(graph, findings);
  });
  run([&] { (void)graph::check_assertion(graph, "saved > 1 && square(3) < 2 || peak > 1"); });
  run([&] { (void)graph::check_assertion(graph, "slots(module=\"layer.0\") > 1"); });
  if (!graph::diff(graph, graph).equal()) throw std::logic_error("a graph differs from itself");
}

void ask_what_if(const Graph& graph) {
  using Matches = std::vector<graph::WhatIfMatch>;
  const auto ask = [&](const std::function<Graph()>& change, const std::function<Matches()>& find) {
    run([&] {
      const Graph then = change();
      (void)graph::what_if_text(graph, then, find());
      (void)graph::diff_text(graph::diff(graph, then));
    });
  };
  ask([&] { return graph::checkpointed(graph, "*"); },
      [&] { return graph::checkpoint_matches(graph, "*"); });
  ask([&] { return graph::fused(graph, "*"); }, [&] { return graph::fuse_matches(graph, "*"); });
  const std::vector<std::string> slots = {"*softmax.y", "*matmul.a"};
  ask([&] { return graph::recomputed(graph, slots); },
      [&] { return graph::recompute_matches(graph, slots); });
}

}  // namespace

std::vector<std::string> valid_dumps() {
  return {graph::to_json(small_step(nn::AttentionPath::composed, false)),
          graph::to_json(small_step(nn::AttentionPath::fused, false)),
          graph::to_json(small_step(nn::AttentionPath::composed, true)),
          graph::to_json(packed_tape())};
}

bool read_and_report(const std::string& text) {
  Graph graph;
  try {
    graph = graph::from_json(text);
  } catch (const ValueError&) {
    return false;
  }
  report_all(graph);
  ask_what_if(graph);
  return true;
}

FuzzCounts fuzz_graph_files(std::uint64_t seed, std::int64_t runs, std::string& last) {
  const std::vector<std::string> dumps = valid_dumps();
  Random random(seed);
  FuzzCounts counts;
  for (std::int64_t i = 0; i < runs; ++i) {
    last = random.one_of(dumps);
    for (std::size_t k = 1 + random.below(2) * random.below(3); k-- > 0;)
      random.one_of(mutations)(last, random);
    ++(read_and_report(last) ? counts.accepted : counts.refused);
  }
  return counts;
}

}  // namespace tapehead::tests
