// Optimizers, clipping. The expected values of the OPT items are those of PyTorch's formulas,
// to the digits given there.
#include "support/checks.h"
#include "support/values.h"

#include <tapehead/core/parallel.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/write.h>

#include <cmath>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_throws;
using tests::infinity;
using tests::not_a_number;

namespace {

using Values = std::vector<double>;

Tensor leaf(const Shape& shape, double value, DType dtype = DType::f64) {
  return parameter(full(shape, value, dtype));
}

// Gradients as a tape would return them.
Gradients gradients_of(const std::vector<std::pair<Tensor, Tensor>>& pairs) {
  Gradients gradients;
  for (const auto& [tensor, gradient] : pairs) gradients.insert(tensor, gradient);
  return gradients;
}

Tensor scalar(double value) { return full({}, value, DType::f64); }

void step(Optimizer& optimizer, const Tensor& w, double gradient) {
  optimizer.step(gradients_of({{w, scalar(gradient)}}));
}

// The formulas of the class comments, in plain loops.
struct Reference {
  std::vector<double> p, m, v;
  int k = 0;

  void adam(const std::vector<double>& gradient, const AdamOptions& o, bool decoupled) {
    ++k;
    m.resize(p.size());
    v.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      double g = gradient[i];
      if (decoupled) p[i] -= o.lr * o.weight_decay * p[i];
      else g += o.weight_decay * p[i];
      m[i] = o.betas[0] * m[i] + (1 - o.betas[0]) * g;
      v[i] = o.betas[1] * v[i] + (1 - o.betas[1]) * g * g;
      const double m_hat = m[i] / (1 - std::pow(o.betas[0], k));
      const double v_hat = v[i] / (1 - std::pow(o.betas[1], k));
      p[i] -= o.lr * m_hat / (std::sqrt(v_hat) + o.eps);
    }
  }
};

}  // namespace

// ---- steps -------------------------------------------------------------------------------------

TEST_CASE("SGD with momentum and Nesterov follows its formula") {
  for (const bool nesterov : {false, true}) {
    const Tensor w = leaf({}, 1);
    SGD optimizer(std::vector<Tensor>{w},
                  {.lr = 0.1, .momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.5});
    double p = 1, b = 0;
    for (const double gradient : {2.0, -3.0, 0.5}) {
      step(optimizer, w, gradient);
      const double g = gradient + 0.5 * p;
      b = 0.9 * b + g;
      p -= 0.1 * (nesterov ? g + 0.9 * b : b);
      CHECK(w.item() == doctest::Approx(p).epsilon(1e-14));
    }
  }
}

TEST_CASE("Adam and AdamW follow their formulas on vector lengths of every remainder") {
  for (const std::int64_t n : {1, 7, 8, 9, 33, 20000}) {
    Generator generator(static_cast<std::uint64_t>(n));
    const Tensor start = randn({n}, DType::f64, generator);
    const AdamOptions options{.lr = 0.01, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1};
    const Tensor coupled = parameter(clone(start)), decoupled = parameter(clone(start));
    Adam adam(std::vector<Tensor>{coupled}, options);
    AdamW adamw(std::vector<Tensor>{decoupled},
                {options.lr, options.betas, options.eps, options.weight_decay});
    Reference adam_reference{start.to_vector(), {}, {}}, adamw_reference = adam_reference;
    for (int k = 0; k < 3; ++k) {
      const Tensor g = randn({n}, DType::f64, generator);
      adam.step(gradients_of({{coupled, g}}));
      adamw.step(gradients_of({{decoupled, g}}));
      adam_reference.adam(g.to_vector(), options, false);
      adamw_reference.adam(g.to_vector(), options, true);
    }
    const Tensor expected = from_vector(adam_reference.p, {n});
    CHECK(allclose(coupled.detach(), expected, 1e-13, 1e-14));  // a few roundings of f64
    CHECK(allclose(decoupled.detach(), from_vector(adamw_reference.p, {n}), 1e-13, 1e-14));
  }
}

TEST_CASE(
    "a step on a transposed parameter and an expanded gradient equals that on row-major ones") {
  Generator generator(5);
  const Tensor values = randn({40, 60}, DType::f32, generator);
  const Tensor row = randn({1, 60}, DType::f32, generator);
  const Tensor plain = parameter(clone(values));
  Tensor storage = clone(transpose(values, 0, 1));
  Tensor turned_values = transpose(storage, 0, 1);
  storage = Tensor();
  const Tensor turned = parameter(std::move(turned_values));
  AdamW a(std::vector<Tensor>{plain}), b(std::vector<Tensor>{turned});
  const Tensor wide = expand(row, {40, 60});
  for (int k = 0; k < 3; ++k) {
    a.step(gradients_of({{plain, clone(wide)}}));
    b.step(gradients_of({{turned, wide}}));
  }
  // Vector code may fuse a product and a sum where element by element it does not.
  CHECK(allclose(plain.detach(), turned.detach(), 1e-6, 1e-7));
  CHECK(!allclose(plain.detach(), values, 1e-6, 1e-7));
}

TEST_CASE("a step gives the same bits for any number of threads") {
  const Tensor values = randn({100003}), gradient = randn({100003});
  std::vector<Values> results;
  for (const int threads : {1, 2, 5}) {
    const ThreadBudget budget(threads);
    const Tensor w = parameter(clone(values));
    AdamW optimizer(std::vector<Tensor>{w});
    for (int k = 0; k < 2; ++k) optimizer.step(gradients_of({{w, gradient}}));
    results.push_back(w.to_vector());
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE("OPT-1 a parameter without a gradient is skipped, one with a zero gradient is not") {
  const Tensor absent = leaf({}, 1), zero = leaf({}, 1);
  AdamW optimizer(std::vector<Tensor>{absent, zero}, {.lr = 0.1, .weight_decay = 0.1});
  optimizer.step(gradients_of({{absent, Tensor()}, {zero, scalar(0)}}));
  CHECK(absent.item() == 1);
  CHECK(zero.item() == doctest::Approx(0.99).epsilon(1e-15));
  CHECK(absent.storage()->version() == 0);
  for (const NamedTensor& entry : optimizer.state()) {
    if (entry.name == "state.0.steps") CHECK(entry.tensor.item() == 0);
    if (entry.name == "state.1.steps") CHECK(entry.tensor.item() == 1);
    CHECK(entry.name != "state.0.exp_avg");
  }
}

TEST_CASE("OPT-2 AdamW's decay does not go through the moments, Adam's does") {
  const Tensor decoupled = leaf({}, 1), coupled = leaf({}, 1);
  AdamW adamw(std::vector<Tensor>{decoupled}, {.lr = 0.1, .weight_decay = 0.1});
  Adam adam(std::vector<Tensor>{coupled}, {.lr = 0.1, .weight_decay = 0.1});
  step(adamw, decoupled, 0.5);
  step(adam, coupled, 0.5);
  CHECK(std::abs(decoupled.item() - 0.8900000020) < 1e-10);
  CHECK(std::abs(coupled.item() - 0.9000000017) < 1e-10);
}

TEST_CASE("OPT-3 a resumed run goes on bit for bit, with the saved hyperparameters") {
  const Tensor w = leaf({}, 1), resumed = leaf({}, 1);
  Adam optimizer(std::vector<Tensor>{w}, {.lr = 0.1});
  StateDict saved;
  double after_two = 0;
  const double expected[] = {0.9, 0.8034818, 0.7113249}, gradients[] = {1, 2, 4};
  for (int k = 0; k < 3; ++k) {
    step(optimizer, w, gradients[k]);
    CHECK(std::abs(w.item() - expected[k]) < 5e-8);
    if (k != 1) continue;
    for (const NamedTensor& entry : optimizer.state())
      saved.push_back({entry.name, clone(entry.tensor)});
    after_two = w.item();
  }
  Adam other(std::vector<Tensor>{resumed}, {.lr = 7, .betas = {0.1, 0.2}, .weight_decay = 3});
  step(other, resumed, -5);  // what it has of its own is replaced
  fill_(resumed, after_two);
  other.load_state(saved);
  CHECK(other.lr() == 0.1);
  step(other, resumed, 4);
  CHECK(resumed.item() == w.item());
}

TEST_CASE("a state that does not fit is an error that lists why, and changes nothing") {
  const Tensor w = leaf({2}, 1);
  const Gradients gradients = gradients_of({{w, full({2}, 1, DType::f64)}});
  AdamW optimizer(std::vector<Tensor>{w}, {.lr = 0.5});
  optimizer.step(gradients);
  const auto broken = [&](const char* name, Tensor value) {
    StateDict state = optimizer.state();
    for (NamedTensor& entry : state)
      if (entry.name == name) entry.tensor = value;
    return state;
  };
  const auto rejects = [&](const StateDict& state, const std::string& text) {
    check_throws(ErrorKind::value, {text}, [&] { optimizer.load_state(state); });
    CHECK(optimizer.lr() == 0.5);
  };
  rejects(broken("state.0.exp_avg", zeros({3}, DType::f64)), "\"state.0.exp_avg\" is f64 (3)");
  rejects(broken("state.0.exp_avg_sq", zeros({2})), "\"state.0.exp_avg_sq\" is f32 (2)");
  rejects(broken("state.0.steps", full({}, -1, DType::i64)), "\"state.0.steps\" is negative");
  rejects(broken("state.0.steps", full({}, 0, DType::i64)), "\"state.0.exp_avg\" is unexpected");
  rejects(broken("beta1", scalar(1)), "beta1 1");
  rejects(broken("lr", scalar(-1)), "lr -1");
  StateDict missing = optimizer.state();
  missing.pop_back();
  rejects(missing, "\"state.0.exp_avg_sq\" is missing");
  SGD other(std::vector<Tensor>{w});
  check_throws(ErrorKind::value, {"\"beta1\" is unexpected", "\"momentum\" is missing"},
               [&] { other.load_state(optimizer.state()); });
}

TEST_CASE("momentum that comes with a loaded state works in an optimizer made without") {
  const Tensor w = leaf({}, 1), other = leaf({}, 1);
  SGD with(std::vector<Tensor>{w}, {.lr = 0.1, .momentum = 0.9});
  step(with, w, 1);
  SGD without(std::vector<Tensor>{other}, {.lr = 0.3});
  without.load_state(with.state());
  fill_(other, w.item());
  step(with, w, 2);
  step(without, other, 2);
  CHECK(other.item() == w.item());
}

TEST_CASE("OPT-4 a tied weight is stepped once") {
  struct Tied : Module {
    Tensor a = parameter(full({}, 1, DType::f64)), b = a;
    void visit(Visitor& v) override {
      v("a", a);
      v("b", b);
    }
  } module;
  SGD optimizer(module, {.lr = 0.1});
  Tape tape;
  const Tensor left = 2 * module.a;
  const Tensor right = 3 * module.b;
  const Gradients gradients = tape.gradient(left + right, module.parameters());
  CHECK(gradients[module.a].item() == 5);
  optimizer.step(gradients);
  CHECK(module.a.item() == 0.5);
}

TEST_CASE("OPT-7 gradients are values of one call: nothing is left over from the step before") {
  const Tensor w = leaf({}, 1), unused = leaf({}, 1);
  SGD optimizer(std::vector<Tensor>{w, unused}, {.lr = 0.0});
  for (const double factor : {2.0, 3.0}) {
    Tape tape;
    const Gradients gradients = tape.gradient(w * factor, {w, unused});
    CHECK(gradients[w].item() == factor);
    CHECK(!gradients.reached(unused));
    optimizer.step(gradients);
  }
}

TEST_CASE("OPT-6 micro-batches: gradients of sums add up and are divided once") {
  const Tensor w = leaf({}, 1);
  const auto token_losses = [&](const std::vector<double>& factors) {
    return sum(w * from_vector(factors, {static_cast<std::int64_t>(factors.size())}));
  };
  Gradients total;
  for (const auto& factors : {Values{2, 2, 2}, Values{4}}) {
    Tape tape;
    Gradients gradients = tape.gradient(token_losses(factors), {w});
    if (total.size() == 0) total = std::move(gradients);
    else total += gradients;
  }
  total *= 1.0 / 4;
  CHECK(total[w].item() == 2.5);
}

TEST_CASE("a step bumps versions, so a tape that saved the parameter finds out") {
  const Tensor w = leaf({2}, 3);
  SGD optimizer(std::vector<Tensor>{w}, {.lr = 0.1});
  Tape tape;
  const Tensor y = sum(w * w);
  optimizer.step(gradients_of({{w, full({2}, 1, DType::f64)}}));
  check_throws(ErrorKind::state, {"written to"}, [&] { tape.gradient(y, {w}); });
}

TEST_CASE("stepping a parameter that was replaced is a state error, and writes nothing") {
  Tensor w = leaf({}, 1);
  const Tensor other = leaf({}, 1), old = w;
  SGD optimizer(std::vector<Tensor>{other, w}, {.lr = 0.1});
  w = leaf({}, 2);
  check_throws(ErrorKind::state, {"\"1\"", "replaced"}, [&] {
    optimizer.step(gradients_of({{other, scalar(1)}, {w, scalar(1)}}));
  });
  CHECK(other.item() == 1);
  CHECK(old.item() == 1);
}

TEST_CASE("state is on the books as optimizer state, and made only for what was stepped") {
  const Tensor w = leaf({1000}, 1, DType::f32), unused = leaf({1000}, 1, DType::f32);
  AdamW optimizer(std::vector<Tensor>{w, unused});
  const Gradients gradients = gradients_of({{w, ones({1000})}, {unused, Tensor()}});
  const std::int64_t before = memory_stats().live;
  optimizer.step(gradients);
  CHECK(memory_stats().live - before == 2 * 4000);
  for (const NamedTensor& entry : optimizer.state())
    if (entry.name == "state.0.exp_avg")
      CHECK(entry.tensor.storage()->category() == Category::optimizer_state);
}

// ---- groups and numbers ------------------------------------------------------------------------

TEST_CASE("decay_groups leaves biases and norms without decay") {
  struct Model : Module {
    Tensor weight = parameter(full({1, 1}, 1, DType::f64));
    Tensor bias = parameter(full({1}, 1, DType::f64));
    void visit(Visitor& v) override {
      v("weight", weight);
      v("bias", bias);
    }
  } model;
  AdamW optimizer(decay_groups(model), {.lr = 0.1, .weight_decay = 0.5});
  optimizer.step(gradients_of(
      {{model.weight, zeros({1, 1}, DType::f64)}, {model.bias, zeros({1}, DType::f64)}}));
  CHECK(model.weight.item() == doctest::Approx(0.95).epsilon(1e-15));
  CHECK(model.bias.item() == 1);
}

TEST_CASE("groups scale the learning rate, and set_lr moves all of them") {
  const Tensor a = leaf({}, 0), b = leaf({}, 0);
  SGD optimizer(std::vector<ParameterGroup>{{.parameters = {{"a", a}}},
                                            {.parameters = {{"b", b}}, .lr_scale = 10}},
                {.lr = 1});
  optimizer.set_lr(0.5);
  optimizer.step(gradients_of({{a, scalar(1)}, {b, scalar(1)}}));
  CHECK(a.item() == -0.5);
  CHECK(b.item() == -5);
}

TEST_CASE("hyperparameters out of range are value errors") {
  const std::vector<Tensor> w{leaf({}, 1)};
  const auto sgd = [&](SGDOptions options) { return [&w, options] { SGD{w, options}; }; };
  const auto adam = [&](AdamOptions options) { return [&w, options] { Adam{w, options}; }; };
  check_throws(ErrorKind::value, {"lr", "-1"}, sgd({.lr = -1}));
  check_throws(ErrorKind::value, {"lr", "nan"}, sgd({.lr = not_a_number}));
  check_throws(ErrorKind::value, {"momentum"}, sgd({.momentum = -0.1}));
  check_throws(ErrorKind::value, {"nesterov"}, sgd({.nesterov = true}));
  check_throws(ErrorKind::value, {"weight_decay"}, sgd({.weight_decay = -1}));
  check_throws(ErrorKind::value, {"beta"}, adam({.betas = {1, 0.9}}));
  check_throws(ErrorKind::value, {"beta"}, adam({.betas = {0.9, -0.1}}));
  check_throws(ErrorKind::value, {"eps"}, adam({.eps = -1}));
  check_throws(ErrorKind::value, {"lr"}, adam({.lr = infinity}));
  check_throws(ErrorKind::value, {"weight_decay"}, adam({.weight_decay = not_a_number}));
  SGD optimizer(w);
  check_throws(ErrorKind::value, {"lr"}, [&] { optimizer.set_lr(-1); });
}

TEST_CASE("what is no leaf, and what is given twice, cannot be optimized") {
  const Tensor w = leaf({}, 1);
  check_throws(ErrorKind::value, {"no leaf"}, [] { SGD(std::vector<Tensor>{zeros({1})}); });
  check_throws(ErrorKind::value, {"no leaf"}, [] { SGD(std::vector<Tensor>{Tensor()}); });
  check_throws(ErrorKind::value, {"twice"}, [&] { SGD(std::vector<Tensor>{w, w}); });
}

// ---- clipping ----------------------------------------------------------------------------------

TEST_CASE("OPT-5 clipping by norm") {
  const Tensor a = leaf({1}, 0), b = leaf({1}, 0), skipped = leaf({1}, 0);
  const auto gradients = [&](double ga, double gb) {
    return gradients_of(
        {{a, full({1}, ga, DType::f64)}, {b, full({1}, gb, DType::f64)}, {skipped, Tensor()}});
  };
  Gradients g = gradients(3, 4);
  CHECK(clip_grad_norm(g, 1).item() == 5);
  CHECK(g[a].item() == doctest::Approx(0.6).epsilon(1e-6));
  CHECK(g[b].item() == doctest::Approx(0.8).epsilon(1e-6));
  CHECK(!g.reached(skipped));

  g = gradients(3, 4);
  CHECK(clip_grad_norm(g, 6).item() == 5);
  CHECK(g[a].item() == 3);  // small enough: not touched

  g = gradients(0, 0);
  CHECK(clip_grad_norm(g, 1).item() == 0);
  CHECK(g[a].item() == 0);

  for (const double bad : {infinity, not_a_number}) {
    g = gradients(bad, 4);
    check_throws(ErrorKind::value, {"norm"}, [&] { clip_grad_norm(g, 1); });
    const double norm = clip_grad_norm(g, 1, false).item();
    CHECK((std::isnan(bad) ? std::isnan(norm) : norm == infinity));
    CHECK(g[b].item() == 4);
  }
  Gradients none;
  CHECK(clip_grad_norm(none, 1).item() == 0);
  check_throws(ErrorKind::value, {"max_norm"}, [&] { clip_grad_norm(none, -1); });
}

TEST_CASE("the norm of large gradients does not overflow in f32, or depend on the threads") {
  const Tensor w = parameter(zeros({300007}));
  const Tensor big = full({300007}, 1e30);
  Gradients g = gradients_of({{w, big}});
  CHECK(clip_grad_norm(g, infinity).item() ==
        doctest::Approx(static_cast<double>(1e30f) * std::sqrt(300007.0)).epsilon(1e-12));
  const Tensor noise = randn({300007});
  Values norms;
  for (const int threads : {1, 2, 3}) {
    const ThreadBudget budget(threads);
    Gradients copy = gradients_of({{w, noise}});
    norms.push_back(clip_grad_norm(copy, infinity).item());
  }
  CHECK(norms[0] == norms[1]);
  CHECK(norms[0] == norms[2]);
}
