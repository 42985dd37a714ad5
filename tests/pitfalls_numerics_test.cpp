// Faults that users of other frameworks met: random numbers and dropout, threads, determinism,
// memory, stale tensors. A fault has an id, which opens the names of its tests, here and in the
// files of the operations; DROP-1 inside a recomputed block stands in checkpoint_test.cpp.
#include "../tools/program/bench/measure.h"
#include "support/checks.h"
#include "support/folder.h"
#include "support/process.h"
#include "support/values.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/parallel.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/nn/init.h>
#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/multinomial.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/write.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

using namespace tapehead;
using tests::check_throws;
using tests::infinity;
using tests::not_a_number;

namespace {

using Values = std::vector<double>;

// A language model small enough for many steps, and its data.
struct Training {
  nn::Gpt model;
  nn::AdamW optimizer;
  Tensor tokens, targets;

  explicit Training(std::uint64_t seed)
      : model(options(), seeded(seed)), optimizer(model, {.lr = 0.01}) {
    tokens = randint(0, 7, {2, 4});
    targets = randint(0, 7, {8});
  }
  static Generator& seeded(std::uint64_t seed) {
    manual_seed(seed);
    return default_generator();
  }
  static nn::GptOptions options() {
    return {.vocab_size = 7, .context = 4, .layers = 1, .heads = 2, .dim = 8, .dropout = 0.2};
  }
  Tensor loss() const { return cross_entropy(reshape(model(tokens), {-1, 7}), targets); }
  Tensor step() {
    Tape tape;
    const Tensor y = loss();
    Gradients gradients = tape.gradient(y, model.parameters());
    nn::clip_grad_norm(gradients, 1);
    optimizer.step(gradients);
    return y.detach();
  }
  void append_weights(Values& to) const {
    for (const Tensor& parameter : model.parameters())
      for (const double value : parameter.to_vector()) to.push_back(value);
  }
};

}  // namespace

// ---- dropout ------------------------------------------------------------------------------------

TEST_CASE(
    "DROP-1: the gradient of a sum of dropped ones is the result: 2 where kept, 0 where dropped") {
  const Tensor x = parameter(ones({1000}, DType::f64));
  Tape tape;
  const Tensor y = dropout(x, 0.5);
  const Tensor loss = sum(y);
  const Values dx = tape.gradient(loss, {x})[x].to_vector();
  CHECK(dx == y.to_vector());
  CHECK(std::count(dx.begin(), dx.end(), 0.0) + std::count(dx.begin(), dx.end(), 2.0) == 1000);
}

TEST_CASE("DROP-2: what is kept is scaled by 1 / (1 - p), and dropping all stops even infinities") {
  const Tensor x = expand(tensor({1, 2}, DType::f64), {500, 2});
  const Values y = dropout(x, 0.3).to_vector();
  for (std::size_t i = 0; i < y.size(); i += 2) {
    CHECK((y[i] == 0 || std::abs(y[i] - 1.428571) < 1e-6));
    CHECK((y[i + 1] == 0 || std::abs(y[i + 1] - 2.857143) < 1e-6));
  }
  const Tensor wild = parameter(tensor({infinity, not_a_number}, DType::f64));
  Tape tape;
  const Tensor nothing = dropout(wild, 1);
  CHECK(nothing.to_vector() == Values{0, 0});
  CHECK(tape.gradient(nothing, {wild}, full({2}, infinity, DType::f64))[wild].to_vector() ==
        Values{0, 0});
}

TEST_CASE("DROP-2: every function and module that drops refuses p outside [0, 1], and NaN") {
  const Tensor x = ones({2, 2});
  for (const double p : {-0.1, 1.5, not_a_number}) {
    CAPTURE(p);
    const auto refuses = [](FunctionRef<void()> call) {
      check_throws(ErrorKind::value, {"[0, 1]"}, call);
    };
    refuses([&] { dropout(x, p); });
    refuses([&] { nn::Dropout{p}; });
    refuses([&] { nn::attention(x, x, x, {.dropout = p}); });
    refuses([&] { fused_attention(x, x, x, {.dropout = p}); });
    refuses([&] { nn::MultiHeadAttention({.embed_dim = 2, .num_heads = 1, .dropout = p}); });
    refuses([&] { nn::FeedForward({.dim = 2, .hidden = 2, .dropout = p}); });
    refuses([&] { nn::TransformerEncoderLayer({.d_model = 2, .nhead = 1, .dropout = p}); });
    refuses([&] {
      nn::Gpt({.vocab_size = 2, .context = 2, .layers = 1, .heads = 1, .dim = 2, .dropout = p});
    });
  }
}

TEST_CASE("DROP-3: infinities and NaNs are selected away, and the gradient is 0 or 2, never NaN") {
  for (const double value : {infinity, not_a_number}) {
    const Tensor x = parameter(full({100}, value, DType::f64));
    Tape tape;
    const Tensor y = dropout(x, 0.5);
    const Values values = y.to_vector(),
                 dx = tape.gradient(y, {x}, ones({100}, DType::f64))[x].to_vector();
    for (std::size_t i = 0; i < 100; ++i) {
      CHECK((dx[i] == 0 || dx[i] == 2));
      CHECK((dx[i] == 0 ? values[i] == 0 : !std::isfinite(values[i])));
    }
  }
}

// ---- random numbers and threads -----------------------------------------------------------------

TEST_CASE("THR-2: the seed of the thread decides every draw, whatever the number of threads") {
  const Tensor q = ones({1, 2, 40, 4}), v = ones({1, 2, 40, 4});
  const auto draw_all = [&] {
    std::vector<Tensor> drawn;
    drawn.push_back(dropout(ones({20000}), 0.5));
    drawn.push_back(rand({20000}));
    drawn.push_back(uniform({20000}, -1, 1));
    drawn.push_back(randn({20000}));
    drawn.push_back(randint(0, 1000, {20000}));
    drawn.push_back(multinomial(ones({100}), 1000, true));
    drawn.push_back(nn::linear_uniform({200, 100}, 100, DType::f32));
    drawn.push_back(nn::xavier_uniform({200, 100}, DType::f32));
    drawn.push_back(nn::normal({200, 100}, 0, 1, DType::f32));
    drawn.push_back(nn::Dropout(0.5)(ones({20000})));
    drawn.push_back(nn::attention(q, q, v, {.dropout = 0.5}));
    drawn.push_back(fused_attention(q, q, v, {.dropout = 0.5}));
    return drawn;
  };
  manual_seed(1);
  const std::vector<Tensor> first = draw_all(), second = draw_all();
  for (const int threads : {1, 2, 8}) {
    const ThreadBudget budget(threads);
    manual_seed(1);
    const std::vector<Tensor> again = draw_all();
    for (std::size_t i = 0; i < first.size(); ++i) {
      CAPTURE(i);
      CHECK(equal(again[i], first[i]));
      CHECK(!equal(second[i], first[i]));
    }
  }
}

TEST_CASE(
    "THR-1: two models that train at once, with dropout, equal the same runs one after the other") {
  const auto train = [](std::uint64_t seed, Values& trace) {
    Training training(seed);
    for (int step = 0; step < 200; ++step) trace.push_back(training.step().item());
    training.append_weights(trace);
  };
  Values alone[2], together[2];
  for (const int i : {0, 1}) train(static_cast<std::uint64_t>(i), alone[i]);
  std::thread first([&] { train(0, together[0]); }), second([&] { train(1, together[1]); });
  first.join();
  second.join();
  CHECK(alone[0] != alone[1]);
  for (const int i : {0, 1}) CHECK(together[i] == alone[i]);
}

// ---- determinism --------------------------------------------------------------------------------

namespace {

enum class Rows { multiplied, scaled };

// Losses and weights of 20 steps with repeated ids, softmax, a sum of 10^6 numbers, and in between
// a product of matrices, which is BLAS's, or one of elements, which is ours.
Values train_large(Rows kind) {
  Generator generator(5);
  const Tensor table = parameter(randn({50, 64}, DType::f32, generator));
  const Tensor weight =
      parameter(randn({kind == Rows::multiplied ? 64 : 1, 64}, DType::f32, generator));
  const Tensor factor = parameter(full({}, 0.5));
  const Tensor ids = randint(0, 50, {3000}, generator),
               data = randn({1000, 1000}, DType::f32, generator);
  const Tensor upstream = randn({3000, 64}, DType::f32, generator);
  nn::AdamW optimizer(std::vector<Tensor>{table, weight, factor}, {.lr = 0.01});
  Values trace;
  for (int step = 0; step < 20; ++step) {
    Tape tape;
    const Tensor rows = embedding(table, ids);
    const Tensor y = softmax(kind == Rows::multiplied ? matmul(rows, weight) : rows * weight, -1);
    const Tensor part = sum(y * upstream);
    const Tensor squares = square(data * factor);
    const Tensor loss = part + sum(squares) * 1e-6;
    trace.push_back(loss.item());
    optimizer.step(tape.gradient(loss, {table, weight, factor}));
  }
  for (const Tensor& x : {table, weight, factor})
    for (const double value : x.to_vector()) trace.push_back(value);
  return trace;
}

std::string bytes_of(const Values& values) {
  std::string bytes(values.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

TEST_CASE(
    "DET-1: a run has the same bits twice, in another process and, but for products of matrices, "
    "with any number of threads") {
  constexpr const char* variable = "TAPEHEAD_TEST_DET_1_RESULT";
  const auto write = [](const std::filesystem::path& path, const std::string& text) {
    io::AtomicFile file("test", path);
    file.write(text);
    file.commit();
  };
  const std::string first = bytes_of(train_large(Rows::multiplied));
  if (const char* path = std::getenv(variable)) {  // this is the other process
    write(path, first);
    return;
  }
  CHECK(bytes_of(train_large(Rows::multiplied)) == first);
  const std::string ours = bytes_of(train_large(Rows::scaled));
  for (const int threads : {1, 2, 8}) {
    const ThreadBudget budget(threads);
    CHECK(bytes_of(train_large(Rows::multiplied)) == bytes_of(train_large(Rows::multiplied)));
    CHECK(bytes_of(train_large(Rows::scaled)) == ours);
  }
  const tests::Folder folder;
  tests::run_in_new_process("DET-1:*", variable, folder.file());
  CHECK(io::read_file("test", folder.file()) == first);
}

// ---- memory -------------------------------------------------------------------------------------

TEST_CASE(
    "MEM-1: a model trained with dropout, clipping and AdamW holds no more after more steps") {
  Training training(1);
  Tensor total = zeros({});
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      training.loss();  // not walked, and recorded by no tape
      total = total + training.step();
    }
  };
  run(100);
  const MemoryStats before = memory_stats();
  const std::int64_t resident = program::bench::resident_bytes();
  run(3200);
  CHECK(memory_stats().live == before.live);  // the sum of losses is one number, not a graph
  CHECK(memory_stats().reserved == before.reserved);
  // 4 MiB: by itself it moves by 0.13 MiB; the nodes of a step would add 100 KB in each of them.
  if (!tests::sanitized) CHECK(program::bench::resident_bytes() <= resident + (4 << 20));
  CHECK(std::isfinite(total.item()));
}

TEST_CASE(
    "SIZE-2: memory that does not exist is an error that names shape and bytes, and nothing "
    "leaks") {
  const std::int64_t live = memory_stats().live;
  const Tensor one = ones({1});
  const auto refuses = [](const char* shape, FunctionRef<void()> call) {
    check_throws(ErrorKind::out_of_memory, {shape, "4503599627370496 bytes"}, call);
  };
  refuses("(1125899906842624)", [] { zeros({std::int64_t{1} << 50}); });
  refuses("(1125899906842624)", [&] { (void)(expand(one, {std::int64_t{1} << 50}) + 1.0); });
  refuses("(33554432, 33554432)", [] { rand({1 << 25, 1 << 25}); });
  CHECK((one + 1.0).item() == 2);
  CHECK(memory_stats().live == live + 4);
}

TEST_CASE(
    "SIZE-3: a dry run of a product that would not fit takes no memory, and counts what is "
    "wanted") {
  const std::int64_t resident = program::bench::resident_bytes();
  const DryRun dry;
  const Tensor constant = zeros({65536, 65536}), a = parameter(zeros({65536, 65536})),
               b = parameter(zeros({65536, 65536}));
  const auto saved = [](const Tensor& left, const Tensor& right) {
    Tape tape;
    const Tensor y = matmul(left, right);
    CHECK(y.numel() == 4294967296);
    const std::int64_t bytes = tape.graph().saved_bytes();
    if (right.is_leaf())
      CHECK(tape.gradient(y, {right}, ones_like(y))[right].storage()->bytes() == 17179869184);
    return bytes;
  };
  CHECK(saved(a, b) == 34359738368);
  CHECK(saved(constant, b) == 17179869184);  // da is not wanted, so b is not kept
  CHECK(saved(constant, constant) == 0);
  CHECK(program::bench::resident_bytes() < resident + (100 << 20));
}

// ---- stale tensors ------------------------------------------------------------------------------

TEST_CASE(
    "REUSE-2: writing over what was saved is an error that names the operation, not a wrong "
    "gradient") {
  const auto stale = [](const char* name, const std::function<Tensor(const Tensor&)>& f) {
    CAPTURE(name);
    const Tensor a = parameter(zeros({1, 1}, DType::f64));
    Tape tape;
    const Tensor s = f(a), loss = sum(s * 2.0);
    {
      const Tape::Pause pause;
      fill_(s, 0);
    }
    check_throws(ErrorKind::state, {name, "written to"}, [&] { tape.gradient(loss, {a}); });
  };
  stale("sigmoid", [](const Tensor& a) { return sigmoid(a); });
  stale("exp", [](const Tensor& a) { return exp(a); });
  stale("tanh", [](const Tensor& a) { return tanh(a); });
  stale("softmax", [](const Tensor& a) { return softmax(a, -1); });
  stale("sqrt", [](const Tensor& a) { return sqrt(a); });
  stale("relu", [](const Tensor& a) { return relu(a); });
  for (const bool left : {true, false}) {
    for (const bool product : {true, false}) {
      const Tensor a = parameter(ones({1, 1}, DType::f64)), b = parameter(ones({1, 1}, DType::f64));
      Tape tape;
      const Tensor y = product ? matmul(a, b) : a * b;
      {
        const Tape::Pause pause;
        fill_(left ? a : b, 0);
      }
      check_throws(ErrorKind::state, {product ? "matmul" : "mul", "written to"}, [&] {
        tape.gradient(y, {a, b});
      });
    }
  }
}

// ---- extreme values -----------------------------------------------------------------------------

TEST_CASE("gelu by tanh has slope 0 or 1 and no curvature far from 0, up to the largest number") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double largest = dtype == DType::f32
                               ? static_cast<double>(std::numeric_limits<float>::max())
                               : std::numeric_limits<double>::max();
    for (const double size : {100.0, 1e14, 1e30, largest}) {
      CAPTURE(size);
      const Tensor x = parameter(tensor({size, -size}, dtype));
      Tape tape;
      const Tensor y = gelu(x, Approximate::tanh);
      CHECK(y.to_vector() == Values{x.to_vector()[0], 0});
      const Tensor seed = ones({2}, dtype);
      CHECK(tape.gradient(y, {x}, seed, {.keep = true})[x].to_vector() == Values{1, 0});
      const Tensor g = tape.gradient(y, {x}, seed, {.create_graph = true})[x];
      CHECK(g.to_vector() == Values{1, 0});
      CHECK(tape.gradient(g, {x}, seed)[x].to_vector() == Values{0, 0});
    }
  }
}

TEST_CASE(
    "second derivatives of div are right wherever they are a number, however large the terms") {
  const std::vector<std::array<double, 3>> rows = {// a, b, 2 * a / b^3
                                                   {1e-300, 1e-200, 2e300},
                                                   {1e300, 1e200, 2e-300},
                                                   {3, -2, -0.75}};
  for (const auto& [a, b, want] : rows) {
    const Tensor x = full({1}, a, DType::f64);
    const Tensor y = parameter(full({1}, b, DType::f64));
    Tape tape;
    const Tensor q = div(x, y);
    const Tensor first = tape.gradient(q, {y}, {}, {.create_graph = true})[y];
    CHECK(tape.gradient(first, {y})[y].item() == doctest::Approx(want).epsilon(1e-14));
  }
}

TEST_CASE("gelu by tanh passes a NaN on in every derivative") {
  const Tensor x = parameter(tensor({not_a_number, 1}, DType::f64));
  Tape tape;
  const Tensor y = gelu(x, Approximate::tanh);
  const Tensor g = tape.gradient(y, {x}, ones({2}, DType::f64), {.create_graph = true})[x];
  const Values second = tape.gradient(g, {x}, ones({2}, DType::f64))[x].to_vector();
  CHECK(std::isnan(second[0]));
  CHECK(std::isfinite(second[1]));
}

TEST_CASE("multinomial draws by ratios, however large or small the probabilities") {
  Generator generator(5);
  for (const double p : {1e308, 5e-324, 1e-310}) {
    const Tensor even = full({2000, 2}, p, DType::f64);
    for (const bool replacement : {true, false}) {
      const double ones = sum(to(multinomial(even, 1, replacement, generator), DType::f64)).item();
      CHECK(std::abs(ones - 1000) < 5 * std::sqrt(500.0));  // five standard deviations
    }
  }
}

TEST_CASE("a quotient by a number is rounded once") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (double n = 1; n < 200; ++n) CHECK(div(full({}, n, dtype), n).item() == 1);
  CHECK((full({}, 1e-10) / 1e-40).item() == doctest::Approx(1e30));  // 1 / 1e-40 is infinite in f32
}

TEST_CASE("the gradient of pow to its exponent is NaN where that is NaN, and 0 for powers of 0") {
  const Tensor a = parameter(tensor({0, 0, 0, 2}, DType::f64));
  const Tensor b = parameter(tensor({not_a_number, 0, 2, not_a_number}, DType::f64));
  Tape tape;
  const Tensor y = pow(a, b);
  const Values db = tape.gradient(y, {b}, ones({4}, DType::f64))[b].to_vector();
  CHECK(std::isnan(db[0]));
  CHECK(db[1] == 0);
  CHECK(db[2] == 0);
  CHECK(std::isnan(db[3]));
}
