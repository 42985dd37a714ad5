// Modules: names, traversal, state dicts, modes, paths; and the layers.
#include "support/checks.h"
#include "support/names.h"

#include <tapehead/nn/gpt.h>
#include <tapehead/nn/layers.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/write.h>

#include <cmath>
#include <sstream>
#include <thread>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_throws;
using tests::names_of;

namespace {

using Names = std::vector<std::string>;
using Values = std::vector<double>;

// Every kind of part: children by name, in a list, optional, owned by pointer, and without a name.
struct House : Module {
  Linear door{2, 3};
  std::vector<Linear> rooms;
  std::optional<Linear> garage;
  std::unique_ptr<LayerNorm> roof;
  Linear cellar{3, 2};
  Tensor number = parameter(zeros({1}));

  House() {
    rooms.emplace_back(3, 3);
    rooms.emplace_back(3, 3);
    roof = std::make_unique<LayerNorm>(LayerNormOptions{.normalized_shape = {3}});
  }
  void visit(Visitor& v) override {
    v("door", door);
    v("rooms", rooms);
    v("garage", garage);
    v("roof", roof);
    v("", cellar);
    v("number", number);
  }
  Tensor operator()(const Tensor& x) const {
    const ModuleScope scope = enter();
    Tensor y = door(x);
    for (const Linear& room : rooms) y = room(y);
    y = (*roof)(y);
    y = cellar(y);
    return y + number;
  }
};

// Two names for one parameter.
struct Tied : Module {
  Tensor a = parameter(full({1}, 1));
  Tensor b = a;
  void visit(Visitor& v) override {
    v("a", a);
    v("b", b);
  }
};

struct OnePart : Module {
  Tensor part;
  void visit(Visitor& v) override { v("part", part); }
};

// A child that visit() forgets.
struct Forgetful : Module {
  Linear known{2, 2};
  Linear forgotten{2, 2};
  void visit(Visitor& v) override { v("known", known); }
  Tensor operator()(const Tensor& x) const {
    const ModuleScope scope = enter();
    return forgotten(known(x));
  }
};

}  // namespace

// ---- names and traversal -----------------------------------------------------------------------

TEST_CASE("visit() names children in lists, optional ones and nameless ones") {
  House house;
  const Names expected = {"door.weight",    "door.bias",    "rooms.0.weight", "rooms.0.bias",
                          "rooms.1.weight", "rooms.1.bias", "roof.weight",    "roof.bias",
                          "weight",         "bias",         "number"};
  CHECK(names_of(house.state_dict()) == expected);
  CHECK(names_of(house.named_parameters()) == expected);
  CHECK(house.parameters().size() == expected.size());
  CHECK(house.parameter_count() == 9 + 12 + 12 + 6 + 8 + 1);
  house.garage.emplace(1, 1);
  CHECK(house.parameters().size() == expected.size() + 2);
}

TEST_CASE("a tied parameter is one parameter, with both names in the state dict") {
  Tied tied;
  CHECK(names_of(tied.named_parameters()) == Names{"a"});
  CHECK(names_of(tied.state_dict()) == Names{"a", "b"});
  CHECK(tied.parameter_count() == 1);
}

TEST_CASE("a part that is no leaf, and a name given twice, are state errors") {
  OnePart module;
  CHECK(module.parameters().empty());  // undefined: left out on purpose
  module.part = zeros({2});
  check_throws(ErrorKind::state, {"part", "leaf"}, [&] { module.parameters(); });

  struct Twice : Module {
    Tensor x = parameter(zeros({1})), y = parameter(zeros({1}));
    void visit(Visitor& v) override {
      v("same", x);
      v("same", y);
    }
  } twice;
  check_throws(ErrorKind::state, {"same"}, [&] { twice.state_dict(); });
}

TEST_CASE("modules move with their parameters and cannot be copied") {
  static_assert(!std::is_copy_constructible_v<House> && std::is_move_constructible_v<House>);
  static_assert(!std::is_copy_assignable_v<Linear> && std::is_move_assignable_v<Linear>);
  Linear first(2, 2);
  const Tensor weight = first.weight;
  const Linear second = std::move(first);
  CHECK(second.weight.is_same(weight));
}

TEST_CASE("operations are recorded under the module path of the outermost module") {
  House house;
  Tape tape;
  house(ones({1, 2}));
  const Graph graph = tape.graph();
  Names paths;
  for (const Graph::Node& node : graph.nodes)
    if (paths.empty() || paths.back() != node.module) paths.push_back(node.module);
  CHECK(paths == Names{"door", "rooms.0", "rooms.1", "roof", ""});  // cellar has no name
  Names leaves;
  for (const Graph::Value& value : graph.values)
    if (value.leaf) leaves.push_back(value.name);
  CHECK(leaves == names_of(house.state_dict()));
}

TEST_CASE("a replaced child keeps its place in module paths") {
  House house;
  house(ones({1, 2}));
  house.door = Linear(2, 3);
  Tape tape;
  house(ones({1, 2}));
  CHECK(tape.graph().nodes.front().module == "door");
  house.name_parameters();
  CHECK(house.door.weight.name() == "door.weight");
}

TEST_CASE("the first calls of one module may come from several threads") {
  const House house;
  const Tensor x = ones({1, 2});
  std::vector<Values> results(4);
  std::vector<std::thread> threads;
  for (Values& result : results)
    threads.emplace_back([&] {
      const Tape::Pause pause;
      result = house(x).to_vector();
    });
  for (std::thread& thread : threads) thread.join();
  for (const Values& result : results) CHECK(result == results[0]);
}

TEST_CASE("leaves that visit() forgot are reported") {
  Forgetful module;
  Tape tape;
  module(ones({1, 2}));
  const std::vector<Tensor> unlisted = module.unlisted_leaves(tape);
  REQUIRE(unlisted.size() == 2);
  CHECK(unlisted[0].is_same(module.forgotten.weight));
  check_throws(ErrorKind::state, {"(2, 2)", "visit()"}, [&] { module.check_all_listed(tape); });

  House house;
  Tape other;
  house(ones({1, 2}));
  house.check_all_listed(other);
}

TEST_CASE("printing shows the tree with kinds, options and the number of parameters") {
  const House house;
  CHECK(to_string(house) ==
        "Module: 48 parameters\n"
        "  door: Linear(2 -> 3)\n"
        "  rooms.0: Linear(3 -> 3)\n"
        "  rooms.1: Linear(3 -> 3)\n"
        "  roof: LayerNorm(3)\n"
        "  Linear(3 -> 2)\n");
  std::ostringstream out;
  out << house;
  CHECK(out.str() == to_string(house));
}

// ---- state dicts -------------------------------------------------------------------------------

TEST_CASE("loading writes in place: the parameters stay the same leaves") {
  House from, to;
  const std::vector<Tensor> before = to.parameters();
  const std::uint64_t version = before[0].storage()->version();
  to.load_state_dict(from.state_dict());
  const std::vector<Tensor> after = to.parameters(), source = from.parameters();
  for (std::size_t i = 0; i < after.size(); ++i) {
    CHECK(after[i].is_same(before[i]));
    CHECK(equal(after[i], source[i]));
  }
  CHECK(before[0].storage()->version() > version);
}

TEST_CASE("loading lists everything that is wrong, and then writes nothing") {
  House house;
  const Values before = house.door.weight.to_vector();
  StateDict state = House().state_dict();
  state[1].name = "door.offset";    // door.bias is missing, door.offset unexpected
  state[2].tensor = zeros({3, 4});  // rooms.0.weight
  state[4].tensor = zeros({3, 3}, DType::f64);
  state.push_back({"number", zeros({1})});
  check_throws(ErrorKind::value,
               {"\"door.bias\" is missing", "\"door.offset\" is unexpected",
                "\"rooms.0.weight\" is f32 (3, 4) in place of f32 (3, 3)",
                "\"rooms.1.weight\" is f64 (3, 3)", "\"number\" is there twice"},
               [&] { house.load_state_dict(state); });
  CHECK(house.door.weight.to_vector() == before);
}

TEST_CASE("tied parameters are loaded once, and values that differ are an error") {
  Tied tied;
  tied.load_state_dict({{"a", full({1}, 3)}, {"b", full({1}, 3)}});
  CHECK(tied.a.item() == 3);
  CHECK(tied.a.is_same(tied.b));
  check_throws(ErrorKind::value, {"\"b\" differs"}, [&] {
    tied.load_state_dict({{"a", full({1}, 4)}, {"b", full({1}, 5)}});
  });
  CHECK(tied.a.item() == 3);
}

TEST_CASE("loading while a tape records is a state error") {
  Tied tied;
  const StateDict state = Tied().state_dict();
  Tape tape;
  check_throws(ErrorKind::state, {"tape"}, [&] { tied.load_state_dict(state); });
}

TEST_CASE("a clone has the values and the mode, and parameters of its own") {
  Gpt model(
      {.vocab_size = 5, .context = 4, .layers = 1, .heads = 2, .dim = 4, .tied_output = true});
  model.eval();
  const RandomState before = default_generator().state();
  Gpt copy = clone(model);
  CHECK(default_generator().state() == before);
  CHECK(!copy.training());
  const Tensor tokens = tensor({0, 3, 1}, DType::i64);
  CHECK(equal(copy(tokens), model(tokens)));
  fill_(copy.norm.bias, 1);
  CHECK(!equal(copy(tokens), model(tokens)));
}

// ---- modes -------------------------------------------------------------------------------------

TEST_CASE("train() and eval() reach every module below, and EvalMode puts back what was") {
  House house;
  house.rooms[1].eval();
  {
    const EvalMode mode(house);
    CHECK(!house.training());
    CHECK(!house.roof->training());
    CHECK(!house.cellar.training());
  }
  CHECK(house.training());
  CHECK(house.roof->training());
  CHECK(!house.rooms[1].training());
  house.eval();
  CHECK(!house.rooms[0].training());
  house.train();
  CHECK(house.rooms[1].training());
}

// ---- layers ------------------------------------------------------------------------------------

TEST_CASE("Linear starts from U(-1/sqrt(in), 1/sqrt(in)) and computes x W^T + b") {
  Generator generator(1);
  const Linear layer({.in_features = 100, .out_features = 400, .dtype = DType::f64}, generator);
  const Values weight = layer.weight.to_vector();
  double largest = 0, squares = 0;
  for (const double w : weight) {
    largest = std::max(largest, std::abs(w));
    squares += w * w;
  }
  CHECK(largest <= 0.1);
  CHECK(largest > 0.0999);  // 40000 draws: the chance to stay below is 1e-17
  // The variance of one draw is 1/300; that of the mean of 40000 squares has deviation 1.5e-5.
  CHECK(squares / 40000 == doctest::Approx(1.0 / 300).epsilon(0.025));
  const Tensor x = randn({3, 100}, DType::f64);
  const Tape::Pause pause;
  CHECK(equal(layer(x), linear(x, layer.weight, layer.bias)));
}

TEST_CASE("Linear without bias has no bias, and sizes must be positive") {
  const Linear layer({.in_features = 2, .out_features = 3, .bias = false});
  CHECK(names_of(layer.state_dict()) == Names{"weight"});
  check_throws(ErrorKind::value, {"in_features", "0"}, [] { Linear(0, 3); });
  check_throws(ErrorKind::value, {"out_features", "-1"}, [] { Linear(3, -1); });
}

TEST_CASE("the padding row of an embedding starts as zero and gets no gradient") {
  const Embedding layer({.num_embeddings = 4, .embedding_dim = 2, .padding_idx = -1});
  Tape tape;
  const Tensor loss = sum(layer(tensor({3, 1, 3}, DType::i64)));
  CHECK(loss.item() == doctest::Approx(layer.weight.to_vector()[2] + layer.weight.to_vector()[3]));
  const Gradients gradients = tape.gradient(loss, {layer.weight});
  CHECK(gradients[layer.weight].to_vector() == Values{0, 0, 1, 1, 0, 0, 0, 0});
  check_throws(ErrorKind::index, {"padding_idx", "4"},
               [] { Embedding({.num_embeddings = 4, .embedding_dim = 2, .padding_idx = 4}); });
}

TEST_CASE("LayerNorm normalises the last dims, then applies weight and bias") {
  LayerNorm layer({.normalized_shape = {4}, .eps = 0, .dtype = DType::f64});
  fill_(layer.weight, 2);
  fill_(layer.bias, 1);
  const Tape::Pause pause;
  const Tensor y = layer(tensor({{1, 1, 3, 3}}, DType::f64));
  CHECK(y.to_vector() == Values{-1, -1, 3, 3});
  check_throws(ErrorKind::value, {"normalized_shape"}, [] { LayerNorm(LayerNormOptions{}); });
}

TEST_CASE("Dropout acts in training mode only, and draws nothing otherwise") {
  Dropout layer(0.5);
  manual_seed(3);
  const Tensor x = ones({1000});
  double kept = 0;
  for (const double y : layer(x).to_vector()) {
    CHECK((y == 0 || y == 2));
    kept += y / 2;
  }
  CHECK(kept == doctest::Approx(500).epsilon(0.2));  // deviation 16
  const RandomState before = default_generator().state();
  layer.eval();
  CHECK(layer(x).is_same(x));
  layer.train();
  CHECK(Dropout(0)(x).is_same(x));
  CHECK(default_generator().state() == before);
  for (const double p : {-0.1, 1.5, std::nan("")})
    check_throws(ErrorKind::value, {"probability"}, [&] { Dropout{p}; });
}

TEST_CASE("ZERO-2 an empty batch gives gradients that are zero and present") {
  const Linear layer(3, 2);
  const LayerNorm norm({.normalized_shape = {2}});
  Tape tape;
  const Tensor y = norm(layer(zeros({0, 3})));
  CHECK(y.shape() == Shape{0, 2});
  const Tensor loss = sum(y);
  CHECK(loss.item() == 0);
  const Gradients gradients = tape.gradient(loss, {layer.weight, layer.bias});
  CHECK(gradients.reached(layer.weight));
  CHECK(gradients[layer.weight].to_vector() == Values(6, 0.0));
  CHECK(gradients[layer.bias].to_vector() == Values(2, 0.0));
}
