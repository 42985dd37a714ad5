#include "support/checks.h"

#include <doctest/doctest.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/module_tree.h>
#include <tapehead/graph/reports.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/tapehead.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

// What a ledger sees of `step`, in a real run or a dry one. The peak is measured beside it.
struct Watched {
  Graph graph;
  std::int64_t peak = 0;
};
Watched watch(const std::function<void()>& step) {
  manual_seed(5);  // dropout draws from the default generator
  reset_peak();
  Watched watched;
  Ledger ledger;
  step();
  watched.graph = ledger.graph();
  watched.peak = memory_stats().peak;
  return watched;
}

// A training step of the module that `make` builds: forward, backward, AdamW.
template <class Make, class Loss>
Watched train_step(Make make, Loss loss) {
  Generator generator(7);
  auto module = make(generator);
  nn::AdamW optimizer(module, {.lr = 1e-3});
  return watch([&] {
    Tape tape;
    const Tensor value = loss(module, generator);
    optimizer.step(tape.gradient(value, module.parameters()));
  });
}

Tensor weighted_sum(const Tensor& y, Generator& generator) {
  const Tensor weights = randn(y.shape(), y.dtype(), generator);
  return sum(y * weights);
}

nn::MultiHeadAttention make_attention(Generator& generator, nn::AttentionPath path) {
  return nn::MultiHeadAttention({.embed_dim = 12, .num_heads = 3, .path = path}, generator);
}

Watched attention_step(nn::AttentionPath path) {
  return train_step([&](Generator& g) { return make_attention(g, path); },
                    [](const nn::MultiHeadAttention& attention, Generator& g) {
                      const Tensor x = randn({2, 5, 12}, DType::f32, g);
                      return weighted_sum(attention(x, nn::Mask::causal()), g);
                    });
}

Watched checkpointed_step() {
  return train_step(
      [](Generator& g) { return make_attention(g, nn::AttentionPath::composed); },
      [](const nn::MultiHeadAttention& attention, Generator& g) {
        const Tensor x = randn({2, 5, 12}, DType::f32, g);
        const Tensor y = nn::checkpoint(
            [&](const std::vector<Tensor>& in) { return attention(in[0], nn::Mask::causal()); },
            {x});
        return weighted_sum(y, g);
      });
}

Watched encoder_step() {
  return train_step(
      [](Generator& g) {
        return nn::TransformerEncoderLayer(
            {.d_model = 12, .nhead = 3, .dim_feedforward = 20, .dropout = 0.25}, g);
      },
      [](const nn::TransformerEncoderLayer& layer, Generator& g) {
        const Tensor x = randn({2, 5, 12}, DType::f32, g);
        return weighted_sum(layer(x), g);
      });
}

Watched gpt_step() {
  return train_step(
      [](Generator& g) {
        return nn::Gpt(
            {.vocab_size = 11, .context = 6, .layers = 2, .heads = 2, .dim = 8, .dropout = 0.1}, g);
      },
      [](const nn::Gpt& gpt, Generator&) {
        const std::vector<std::int64_t> tokens{1, 4, 2, 9, 0, 3, 7, 10, 5, 2, 8, 6};
        const Tensor logits = gpt(from_vector(tokens, {2, 6}));
        const Tensor targets = from_vector(tokens, {12});
        return cross_entropy(reshape(logits, {12, 11}), targets);
      });
}

Watched dry(const std::function<Watched()>& run) {
  const DryRun dry_run;
  return run();
}

}  // namespace

TEST_CASE("a dry run's ledger is that of the real run, event by event, and the peak to the byte") {
  const std::vector<std::function<Watched()>> steps = {
      [] { return attention_step(nn::AttentionPath::composed); },
      [] { return attention_step(nn::AttentionPath::fused); },
      checkpointed_step,
      encoder_step,
      gpt_step,
  };
  for (const auto& step : steps) {
    const Watched real = step(), planned = dry(step);
    CHECK(planned.graph.events == real.graph.events);
    CHECK(planned.graph.steps == real.graph.steps);
    CHECK(planned.graph.nodes == real.graph.nodes);
    CHECK(planned.graph.storages == real.graph.storages);
    CHECK(planned.graph.saved == real.graph.saved);
    CHECK(planned.peak - planned.graph.live_before == real.peak - real.graph.live_before);
  }
}

TEST_CASE("the peak that the events add up to is the allocator's") {
  for (const Watched& watched : {attention_step(nn::AttentionPath::composed), checkpointed_step(),
                                 encoder_step(), gpt_step()}) {
    const graph::Timeline line = graph::timeline(watched.graph);
    CHECK(line.peak == watched.peak);
    CHECK(line.peak > watched.graph.live_before);
    std::int64_t live = line.unwatched;
    for (const std::int64_t id : line.live_at_peak)
      live += watched.graph.storages[static_cast<std::size_t>(id)].bytes;
    CHECK(live == line.peak);
    CHECK(std::accumulate(line.at_peak.begin(), line.at_peak.end(), line.unwatched) == line.peak);
    CHECK(line.highest[static_cast<std::size_t>(line.peak_step)] == line.peak);
    CHECK(*std::max_element(line.highest.begin(), line.highest.end()) == line.peak);
  }
}

TEST_CASE("a ledger's graph has the tape's nodes and slots, and outlives the tape") {
  Generator generator(3);
  const nn::Linear linear(nn::LinearOptions{.in_features = 4, .out_features = 3}, generator);
  const Tensor x = randn({5, 4}, DType::f32, generator);
  Ledger ledger;
  Graph of_tape;
  {
    Tape tape;
    const Tensor y = tanh(linear(x));
    of_tape = tape.graph();
    CHECK(ledger.graph().nodes == of_tape.nodes);
  }
  const Graph graph = ledger.graph();
  CHECK(graph.nodes == of_tape.nodes);
  CHECK(graph.saved.size() == of_tape.saved.size());
  CHECK(graph.saved_activation_bytes() == of_tape.saved_activation_bytes());
  // The step after the last operation: the tape and its results are gone.
  REQUIRE(graph.steps.size() == graph.nodes.size() + 1);
  CHECK(graph.steps.back().phase == Graph::Phase::other);
  CHECK_FALSE(graph.events.back().birth);
}

TEST_CASE("steps come in the order forward, backward, update, and name what ran") {
  const Graph graph = encoder_step().graph;
  const auto phase_of = [](const Graph::Step& step) { return static_cast<int>(step.phase); };
  CHECK(std::is_sorted(graph.steps.begin(), graph.steps.end(),
                       [&](const auto& a, const auto& b) { return phase_of(a) < phase_of(b); }));
  for (const Graph::Step& step : graph.steps) {
    if (step.node < 0) continue;
    const Graph::Node& node = graph.nodes[static_cast<std::size_t>(step.node)];
    CHECK(step.operation == node.operation);
    CHECK(step.module == node.module);
  }
  const auto updates = std::count_if(graph.steps.begin(), graph.steps.end(), [](const auto& step) {
    return step.phase == Graph::Phase::update && step.operation == "AdamW";
  });
  CHECK(updates == 12);  // 4 of the attention, 4 of the two maps, 4 of the norms
}

TEST_CASE("what a checkpoint computes again is marked, and counts in no sum of saved bytes") {
  const Graph plain = attention_step(nn::AttentionPath::composed).graph;
  const Graph checkpointed = checkpointed_step().graph;
  const auto recomputed = [](const Graph& graph) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [](const Graph::Node& node) { return node.recomputed; });
  };
  CHECK(recomputed(plain) == 0);
  CHECK(recomputed(checkpointed) > 0);
  CHECK(checkpointed.saved_activation_bytes() < plain.saved_activation_bytes());
  CHECK(graph::module_sums(checkpointed).activations == checkpointed.saved_activation_bytes());
  // The checkpoint counts what ran in it, and that has no nodes of its own.
  CHECK(graph::module_sums(checkpointed).flops == graph::module_sums(plain).flops);
}

TEST_CASE("an input is donatable when its storage dies with the operation that reads it") {
  const Tensor w = parameter(ones({2, 3})), k = ones({3, 4});
  const auto step = [&] {
    Ledger ledger;
    Tape tape;
    const Tensor held = sum(w, {0}, true);  // w lives on
    const Tensor a = matmul(held, k);
    const Tensor b = matmul(sum(w, {0}, true), k);   // the sum dies with it
    const Tensor c = exp(sum(w, {0}, true));         // in place of the sum, which so lives on
    const Tensor d = matmul(exp(w), k);              // exp keeps its result
    CHECK(tape.graph().nodes[3].donatable.empty());  // no ledger tells a tape
    return ledger.graph();
  };
  const Graph graph = step();
  const auto donatable = [&](std::size_t node) { return graph.nodes.at(node).donatable; };
  using Positions = std::vector<std::int64_t>;
  CHECK(graph.nodes.size() == 8);
  for (const std::size_t other : {0u, 1u, 2u, 4u, 5u, 6u, 7u})
    CHECK(donatable(other) == Positions{});
  CHECK(graph.nodes[3].operation == "matmul");
  CHECK(donatable(3) == Positions{0});
  const std::string text = graph::to_json(graph);
  CHECK(text.find("{\"attributes\": [], \"donatable\": [0], \"flops\": 24, \"id\": 3,") !=
        std::string::npos);
  CHECK(graph::from_json(text) == graph);
  Graph unwatched = graph;
  unwatched.events.clear();
  mark_donatable(unwatched);
  CHECK(unwatched.nodes[3].donatable.empty());
}

TEST_CASE("every storage that dies was born or lived before, and the sums fit the account") {
  const Watched watched = gpt_step();
  std::int64_t change = 0;
  std::vector<int> alive(watched.graph.storages.size(), 0);
  for (const Graph::Event& event : watched.graph.events) {
    const auto id = static_cast<std::size_t>(event.storage);
    change += event.birth ? watched.graph.storages[id].bytes : -watched.graph.storages[id].bytes;
    if (event.birth) ++alive[id];
    else CHECK(--alive[id] >= -1);
  }
  // What stays: the two moments of AdamW and nothing else.
  std::int64_t moments = 0;
  for (std::size_t id = 0; id < alive.size(); ++id) {
    CHECK(alive[id] <= 1);
    if (alive[id] != 1) continue;
    CHECK(watched.graph.storages[id].category == Category::optimizer_state);
    moments += watched.graph.storages[id].bytes;
  }
  CHECK(change == moments);
  CHECK(moments > 0);
}

TEST_CASE("ledgers may be nested: each sees everything from its beginning on") {
  Ledger outer;
  const Tensor a = zeros({3});
  Ledger inner;
  const Tensor b = zeros({5});
  CHECK(inner.graph().events.size() == 1);
  CHECK(outer.graph().events.size() == 2);
  CHECK(inner.graph().storages[0].bytes == 20);
  CHECK(inner.graph().live_before == outer.graph().live_before + 12);
}

TEST_CASE("another thread's storages are not on this thread's ledger") {
  Ledger ledger;
  std::thread([] { const Tensor elsewhere = zeros({100}); }).join();
  CHECK(ledger.graph().events.empty());
}

TEST_CASE("a ledger's graph survives JSON") {
  for (const Watched& watched : {gpt_step(), checkpointed_step()})
    CHECK(graph::from_json(graph::to_json(watched.graph)) == watched.graph);
}

TEST_CASE("a graph file whose events contradict each other is refused") {
  const std::string good = graph::to_json(attention_step(nn::AttentionPath::fused).graph);
  const auto refuses = [&](const std::string& from, const std::string& to, const char* why) {
    std::string bad = good;
    const std::size_t at = bad.find(from);
    REQUIRE(at != std::string::npos);
    bad.replace(at, from.size(), to);
    try {
      (void)graph::from_json(bad);
      FAIL("accepted");
    } catch (const ValueError& error) {
      CHECK(std::string(error.what()).find(why) != std::string::npos);
    }
  };
  refuses(R"({"birth": true, "id": 0, "step": 0,)", R"({"birth": true, "id": 0, "step": 9,)",
          "not in order");
  refuses(R"("birth": true, "id": 1,)", R"("birth": false, "id": 1,)", "born twice or dies twice");
  refuses(R"("live_before": )", R"("live_before": -)", "live_before");
  refuses(R"("live_before": )", R"("live_before": "x", "ignored": )", "live_before");
  refuses(R"("phase": "forward")", R"("phase": "sideways")", "phase");
}

TEST_CASE("a graph file in which a storage is not live where an operation needs it is refused") {
  const Graph good = attention_step(nn::AttentionPath::composed).graph;
  const auto node_of = [&](const char* operation, std::int64_t nth) {
    for (std::size_t id = 0; id < good.nodes.size(); ++id)
      if (good.nodes[id].operation == operation && nth-- == 0) return static_cast<std::int64_t>(id);
    FAIL("no such operation");
    return std::int64_t{};
  };
  const std::int64_t scores = node_of("matmul", 0), softmax = node_of("softmax", 0),
                     product = node_of("matmul", 1);
  const auto storage_of = [&](std::int64_t node) {
    const std::int64_t output = good.nodes[static_cast<std::size_t>(node)].output;
    return good.values[static_cast<std::size_t>(output)].storage;
  };
  const std::int64_t storage = storage_of(softmax);
  REQUIRE(storage_of(scores) == storage);  // softmax works in place
  const auto forward_step = [&](std::int64_t node) {
    const auto step = std::ranges::find(good.steps, node, &Graph::Step::node);
    REQUIRE(step->phase == Graph::Phase::forward);
    return step - good.steps.begin();
  };
  // The birth or the death of the weights in the step of another node.
  const auto refuses = [&](bool birth, std::int64_t node, const std::string& why) {
    Graph bad = good;
    std::erase_if(bad.events, [&](const Graph::Event& event) {
      return event.storage == storage && event.birth == birth;
    });
    const std::int64_t step = forward_step(node);
    const auto later = std::ranges::find_if(
        bad.events, [&](const Graph::Event& event) { return event.step > step; });
    bad.events.insert(later, {.step = step, .storage = storage, .birth = birth});
    check_throws(ErrorKind::value, {"read_json", why.c_str()},
                 [&] { (void)graph::from_json(graph::to_json(bad)); });
  };
  const auto row = [](std::int64_t id) { return "row " + std::to_string(id); };
  refuses(true, product,
          row(scores) +
              " of nodes: the storage of the output is not live in the step that "
              "records the node");
  refuses(false, softmax,
          row(product) +
              " of nodes: the storage of an input is not live in the step that records "
              "the node");
  refuses(false, product,
          " of saved: the storage of the value is not live in all steps of the "
          "node");
}

TEST_CASE("what other threads or the time before saw of a storage contradicts nothing") {
  Tensor made_elsewhere;
  const Tensor w = parameter(ones({3}));
  Ledger from_the_start;
  std::thread([&] { made_elsewhere = ones({3}); }).join();
  Tape tape;
  Tensor y = sum(w * std::exchange(made_elsewhere, Tensor()));
  Ledger from_the_middle;  // of its storages it sees the deaths alone
  (void)tape.gradient(std::exchange(y, Tensor()), {w});
  for (const Ledger* ledger : {&from_the_start, &from_the_middle}) {
    const Graph graph = ledger->graph();
    const auto born = std::ranges::count(graph.events, true, &Graph::Event::birth);
    CHECK(std::ssize(graph.events) > 0);
    CHECK(std::ssize(graph.events) - born > 0);
    CHECK(graph::from_json(graph::to_json(graph)) == graph);
  }
}

TEST_CASE("a file whose storages are more than was live before has a timeline all the same") {
  Graph all;
  all.storages = {{.bytes = 40}, {.bytes = 8}};
  all.steps.resize(2);
  all.events = {{.step = 0, .storage = 0, .birth = false},
                {.step = 1, .storage = 1, .birth = true}};
  const Graph read = graph::from_json(graph::to_json(all));
  const graph::Timeline line = graph::timeline(read);
  CHECK(line.unwatched == 0);
  CHECK(line.peak == 40);
  CHECK(line.peak_step == -1);
  CHECK(line.highest == std::vector<std::int64_t>{40, 8});
  CHECK(graph::timeline_text(read).find("peak: 40 before the first step\n") != std::string::npos);
}

TEST_CASE("reasons name the slots that keep a storage, the parameter, or what made it") {
  const Graph graph = attention_step(nn::AttentionPath::composed).graph;
  const std::vector<std::string> why = graph::reasons(graph);
  REQUIRE(why.size() == graph.storages.size());
  for (std::size_t id = 0; id < why.size(); ++id) {
    CAPTURE(id);
    CHECK_FALSE(why[id].empty());
  }
  const auto mentions = [&](const char* text) {
    return std::any_of(why.begin(), why.end(), [&](const std::string& reason) {
      return reason.find(text) != std::string::npos;
    });
  };
  CHECK(mentions("softmax.y: dx = y * (g - sum(g * y))"));
  CHECK(mentions("made by AdamW, which keeps it between steps"));
  CHECK_FALSE(mentions("in update of"));  // all is made before the first parameter's update
  CHECK(mentions("in backward of"));
}

TEST_CASE("what only its category tells of has that as its reason") {
  Graph graph;
  for (const Category category :
       {Category::transient, Category::parameter, Category::input, Category::saved,
        Category::gradient, Category::optimizer_state, Category::constant})
    graph.storages.push_back({.bytes = 4, .category = category});
  const std::vector<std::string> why = graph::reasons(graph);
  CHECK(why[1] == "what is trained");
  CHECK(why[5] == "moments that the optimizer keeps between steps");
  CHECK(std::set<std::string>(why.begin(), why.end()).size() == why.size());
  CHECK(std::ranges::none_of(why, &std::string::empty));
}

TEST_CASE("what an operation throws when it is asked about itself reaches who asks the ledger") {
  struct Silent final : Node {
    Silent() : Node("silent") {}
    Grads backward(Tensor g, const Wanted&) override { return {g}; }
    std::vector<Graph::Attribute> attributes() const override {
      throw ValueError("silent", "says nothing");
    }
  };
  const Tensor x = parameter(ones({2}));
  Ledger ledger;
  {
    Tape tape;
    record<Silent>(clone(x), {&x}, [](Silent&) {});
  }
  check_throws(ErrorKind::value, {"silent: says nothing"}, [&] { (void)ledger.graph(); });
}

TEST_CASE("a timeline needs events") {
  CHECK_THROWS_AS((void)graph::timeline(Graph{}), ValueError);
}
