// Faults in optimizers and training loops that users of other frameworks met. A fault has an id,
// which opens the names of its tests, here, in optimizer_test.cpp and in loss_test.cpp.
#include "support/checks.h"
#include "support/folder.h"

#include <tapehead/nn/optimizer.h>
#include <tapehead/nn/safetensors.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <algorithm>
#include <functional>
#include <memory>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_throws;

namespace {

using Values = std::vector<double>;
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const Tensor& w, double lr)>;

// One of each kind that keeps something from step to step.
const std::vector<MakeOptimizer> kinds = {
    [](const Tensor& w, double lr) {
      return std::make_unique<SGD>(std::vector<Tensor>{w},
                                   SGDOptions{.lr = lr, .momentum = 0.9, .weight_decay = 0.1});
    },
    [](const Tensor& w, double lr) {
      return std::make_unique<Adam>(std::vector<Tensor>{w},
                                    AdamOptions{.lr = lr, .weight_decay = 0.1});
    },
    [](const Tensor& w, double lr) {
      return std::make_unique<AdamW>(std::vector<Tensor>{w},
                                     AdamWOptions{.lr = lr, .weight_decay = 0.1});
    }};

// One step on loss = factor * w.
void step(Optimizer& optimizer, const Tensor& w, double factor) {
  Tape tape;
  const Tensor loss = sum(w * factor);
  optimizer.step(tape.gradient(loss, {w}));
}

StateDict copy_of(const StateDict& state) {
  StateDict copy;
  for (const NamedTensor& entry : state) copy.push_back({entry.name, clone(entry.tensor)});
  return copy;
}

void check_equal(const StateDict& a, const StateDict& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(a[i].name);
    CHECK(a[i].name == b[i].name);
    CHECK(equal(a[i].tensor, b[i].tensor));
  }
}

// Two maps with one weight between them.
struct Tied : Module {
  explicit Tied(double value) : weight(parameter(full({}, value, DType::f64))), same(weight) {}
  void visit(Visitor& v) override {
    v("first.weight", weight);
    v("second.weight", same);
  }
  Tensor weight, same;
};

}  // namespace

TEST_CASE("OPT-1: without a gradient a weight keeps its value, moments and count of steps") {
  for (const MakeOptimizer& make : kinds) {
    const Tensor w = parameter(full({3}, 1, DType::f64));
    const std::unique_ptr<Optimizer> optimizer = make(w, 0.1);
    step(*optimizer, w, 2);
    const Values before = w.to_vector();
    const StateDict state = copy_of(optimizer->state());
    Tape tape;
    const Tensor other = parameter(ones({}, DType::f64)), loss = other * 1.0;
    const Gradients absent = tape.gradient(loss, {w});
    CHECK(!absent.reached(w));
    optimizer->step(absent);
    CHECK(w.to_vector() == before);
    check_equal(optimizer->state(), state);
  }
}

TEST_CASE(
    "OPT-3: a run that is saved to a file and loaded by another optimizer goes on bit for bit") {
  for (const MakeOptimizer& make : kinds) {
    const Tensor w = parameter(full({5}, 1)), resumed = parameter(full({5}, 8));
    const std::unique_ptr<Optimizer> optimizer = make(w, 0.1), other = make(resumed, 7);
    step(*optimizer, w, 1);
    step(*optimizer, w, 2);
    step(*other, resumed, -5);  // what it has of its own is replaced
    const tests::Folder folder;
    StateDict saved = optimizer->state();
    saved.push_back({"w", w});
    save_safetensors(folder.file(), saved);

    StateDict loaded = load_safetensors(folder.file()).tensors;
    const auto weights = std::find_if(loaded.begin(), loaded.end(),
                                      [](const NamedTensor& entry) { return entry.name == "w"; });
    REQUIRE(weights != loaded.end());
    copy_(resumed, weights->tensor);
    loaded.erase(weights);
    other->load_state(loaded);
    step(*optimizer, w, 4);
    step(*other, resumed, 4);
    CHECK(equal(resumed, w));
    check_equal(other->state(), optimizer->state());
  }
}

TEST_CASE("OPT-3: a state of another shape is an error") {
  for (const MakeOptimizer& make : kinds) {
    const Tensor w = parameter(full({5}, 1)), other = parameter(full({4}, 1));
    const std::unique_ptr<Optimizer> from = make(w, 0.1), to = make(other, 0.1);
    step(*from, w, 1);
    check_throws(ErrorKind::value, {"(5)", "(4)"}, [&] { to->load_state(from->state()); });
  }
}

TEST_CASE("OPT-4: a tied weight is one parameter, stepped once, and comes back tied from a file") {
  const Tied model(1);
  REQUIRE(model.parameters().size() == 1);
  SGD optimizer(model, {.lr = 0.1});
  Tape tape;
  const Tensor twice = 2 * model.weight, thrice = 3 * model.same, loss = twice + thrice;
  const Gradients gradients = tape.gradient(loss, model.parameters());
  CHECK(gradients[model.weight].item() == 5);
  optimizer.step(gradients);
  CHECK(model.weight.item() == 0.5);

  const tests::Folder folder;
  save_safetensors(folder.file(), model.state_dict());  // under both names
  const Safetensors file = load_safetensors(folder.file());
  CHECK(file.tensors.size() == 2);
  Tied loaded(7);
  const Tape::Pause pause;
  loaded.load_state_dict(file.tensors);
  CHECK(loaded.weight.is_same(loaded.same));
  CHECK(loaded.weight.item() == 0.5);
  CHECK(loaded.parameters().size() == 1);
}

TEST_CASE(
    "OPT-6: gradients of micro-batches of unequal counts, by the recipe of cross_entropy's "
    "documentation") {
  Generator generator(2);
  const Tensor w = parameter(randn({3, 4}, DType::f64, generator));
  const Tensor x = randn({5, 3}, DType::f64, generator);
  const Tensor targets = from_vector<std::int64_t>({0, 1, 2, -100, 3}, {5});
  const auto gradients = [&](std::int64_t start, std::int64_t count, Reduction reduction) {
    Tape tape;
    const Tensor logits = matmul(narrow(x, 0, start, count), w);
    const Tensor loss =
        cross_entropy(logits, narrow(targets, 0, start, count), {.reduction = reduction});
    return tape.gradient(loss, {w});
  };
  const Gradients whole = gradients(0, 5, Reduction::mean);
  Gradients summed = gradients(0, 3, Reduction::sum);  // three targets are kept here and one there
  summed += gradients(3, 2, Reduction::sum);
  summed *= 1.0 / 4;
  Gradients mean_of_means = gradients(0, 3, Reduction::mean);
  mean_of_means += gradients(3, 2, Reduction::mean);
  mean_of_means *= 1.0 / 2;
  CHECK(allclose(summed[w], whole[w], 1e-13, 1e-15));  // a few roundings of f64
  CHECK(!allclose(mean_of_means[w], whole[w], 1e-3, 1e-3));
}

TEST_CASE(
    "OPT-7: gradients 2 and 3 of two steps do not add up, and a step without one is no step") {
  const Tensor w = parameter(full({}, 1, DType::f64)), other = parameter(full({}, 1, DType::f64));
  SGD optimizer(std::vector<Tensor>{w, other}, {.lr = 0.1, .momentum = 0.5});
  Values seen;
  for (const double factor : {2.0, 3.0, 0.0}) {
    Tape tape;
    const Tensor loss = factor == 0 ? other * 1.0 : w * factor;
    const Gradients gradients = tape.gradient(loss, {w, other});
    seen.push_back(gradients[w].item());
    CHECK(gradients.reached(w) == (factor != 0));
    optimizer.step(gradients);
  }
  CHECK(seen == Values{2, 3, 0});
  CHECK(w.item() == doctest::Approx(1 - 0.1 * 2 - 0.1 * (0.5 * 2 + 3)).epsilon(1e-15));
}
