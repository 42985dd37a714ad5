// bf16 and f16: how numbers are packed and unpacked, what works with them, what is refused, and
// what a dry run plans with them.
#include "support/folder.h"
#include "support/operation_run.h"
#include "support/values.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/gradcheck.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/text.h>
#include <tapehead/nn/layers.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/nn/safetensors.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/multinomial.h>
#include <tapehead/ops/print.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <cmath>
#include <random>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

constexpr std::array storage_dtypes = {DType::bf16, DType::f16};

// A two-byte format by its definition, with which the library's bit arithmetic is compared.
struct Format {
  int fraction_bits;
  int smallest_exponent;  // of a normal number
  double largest;

  // From the definition of sign, exponent and fraction.
  double value(unsigned bits) const {
    const int exponent_bits = 15 - fraction_bits;
    const unsigned fraction = bits & ((1u << fraction_bits) - 1);
    const unsigned exponent = bits >> fraction_bits & ((1u << exponent_bits) - 1);
    const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
    if (exponent == (1u << exponent_bits) - 1)
      return fraction != 0 ? not_a_number : sign * infinity;
    const unsigned leading = exponent == 0 ? 0 : 1u << fraction_bits;
    const int power = smallest_exponent + std::max(static_cast<int>(exponent) - 1, 0);
    return sign * std::ldexp(leading + fraction, power - fraction_bits);
  }

  // Rounded to a whole number of units in the last place, ties to even as nearbyint does.
  double nearest(double x) const {
    if (x == 0 || !std::isfinite(x)) return x;
    const int unit = std::max(std::ilogb(x), smallest_exponent) - fraction_bits;
    const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
    return std::abs(rounded) > largest ? std::copysign(infinity, x) : rounded;
  }
};

Format format_of(DType dtype) {
  return dtype == DType::bf16 ? Format{7, -126, 0x1.fep127} : Format{10, -14, 65504};
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// A tensor of these bit patterns.
Tensor from_bits(const std::vector<unsigned>& bits, DType dtype) {
  const Tensor x = empty("from_bits", {static_cast<std::int64_t>(bits.size())}, dtype);
  auto* data = x.any_view().as<std::uint16_t>();
  for (const unsigned pattern : bits) *data++ = static_cast<std::uint16_t>(pattern);
  return x;
}

std::vector<unsigned> all_patterns() {
  std::vector<unsigned> bits;
  for (unsigned i = 0; i < 0x10000; ++i) bits.push_back(i);
  return bits;
}

// Numbers of every size, with each finite number of the format, the midpoint to its neighbour and
// what lies next to that midpoint.
template <class T>
std::vector<T> hard_numbers(const Format& format) {
  std::vector<T> numbers = {T(0), T(-0.0), T(infinity), T(-infinity), T(not_a_number)};
  for (unsigned bits = 0; bits + 1 < 0x10000; ++bits) {
    const double a = format.value(bits), b = format.value(bits + 1);
    if (!std::isfinite(a)) continue;
    const double next = std::isfinite(b) ? b : std::copysign(2 * std::ldexp(1, std::ilogb(a)), a);
    const T middle = static_cast<T>((a + next) / 2);
    numbers.insert(numbers.end(), {static_cast<T>(a), middle, std::nextafter(middle, T(infinity)),
                                   std::nextafter(middle, T(-infinity))});
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 300000; ++i) {
    const double size = std::ldexp(1 + 0x1p-52 * static_cast<double>(random() >> 12),
                                   static_cast<int>(random() % 300) - 160);
    numbers.push_back(static_cast<T>(i % 2 == 0 ? size : -size));
  }
  return numbers;
}

template <class T>
void check_packing(DType dtype) {
  const Format format = format_of(dtype);
  const std::vector<T> numbers = hard_numbers<T>(format);
  const Tensor x = from_vector(numbers, {static_cast<std::int64_t>(numbers.size())});
  const std::vector<double> packed = to(x, dtype).to_vector();
  int wrong = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    wrong += same(packed[i], format.nearest(static_cast<double>(numbers[i]))) ? 0 : 1;
  CHECK(numbers.size() > 500000);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("all 65536 patterns of bf16 and f16 read as the format defines them") {
  for (const DType dtype : storage_dtypes) {
    const Format format = format_of(dtype);
    const Tensor x = from_bits(all_patterns(), dtype);
    const std::vector<float> floats = to(x, DType::f32).to_vector<float>();
    const std::vector<double> doubles = to(x, DType::f64).to_vector(), read = x.to_vector();
    int wrong = 0;
    for (unsigned i = 0; i < 0x10000; ++i)
      wrong += same(floats[i], format.value(i)) && same(doubles[i], format.value(i)) &&
                       same(read[i], format.value(i))
                   ? 0
                   : 1;
    CHECK_MESSAGE(wrong == 0, to_string(dtype));
  }
}

TEST_CASE("what bf16 and f16 hold comes back bit for bit from f32 and f64") {
  for (const DType dtype : storage_dtypes)
    for (const DType wide : {DType::f32, DType::f64}) {
      const Tensor x = from_bits(all_patterns(), dtype), back = to(to(x, wide), dtype);
      const auto* before = x.any_view().as<const std::uint16_t>();
      const auto* after = back.any_view().as<const std::uint16_t>();
      int wrong = 0;
      for (unsigned i = 0; i < 0x10000; ++i)
        wrong += before[i] == after[i] || std::isnan(format_of(dtype).value(i)) ? 0 : 1;
      CHECK(wrong == 0);
    }
}

TEST_CASE("f32 and f64 are packed to the nearest number, ties to even, once") {
  for (const DType dtype : storage_dtypes) {
    check_packing<float>(dtype);
    check_packing<double>(dtype);
  }
}

TEST_CASE("beyond the largest number lies infinity, and halfway to it the first of it") {
  const Tensor x = tensor({65504, 65519.996, 65520, 1e30, -65520}, DType::f64);
  CHECK(to(x, DType::f16).to_vector() ==
        std::vector<double>{65504, 65504, infinity, infinity, -infinity});
  const double largest = 0x1.fep127, halfway = 0x1.ffp127;
  const Tensor y = tensor({largest, std::nextafter(halfway, 0), halfway, 1e300}, DType::f64);
  CHECK(to(y, DType::bf16).to_vector() ==
        std::vector<double>{largest, largest, infinity, infinity});
}

TEST_CASE("a double is not rounded twice on its way to two bytes") {
  // Just above the middle of 1 and the next number, by less than a float can tell.
  const Tensor x = tensor({1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8 + 0x1p-40}, DType::f64);
  CHECK(to(x, DType::f16).to_vector()[0] == 1 + 0x1p-10);
  CHECK(to(x, DType::bf16).to_vector()[1] == 1 + 0x1p-7);
}

TEST_CASE("tensors in bf16 and f16 are made, viewed, cloned, written to, compared and printed") {
  for (const DType dtype : storage_dtypes) {
    const std::string name(to_string(dtype));
    const Tensor x = tensor({{1, 2.5, -3}, {4, 5, 0.5}}, dtype);
    CHECK(x.storage()->bytes() == 12);
    CHECK(to_string(x) ==
          "tensor([[ 1.0000,  2.5000, -3.0000],\n        [ 4.0000,  5.0000,  0.5000]], " + name +
              ")");
    const Tensor turned = transpose(x, 0, 1);
    CHECK(turned.to_vector<float>() == std::vector<float>{1, 4, 2.5f, 5, -3, 0.5f});
    CHECK(reshape(turned, {6}).to_vector() == turned.to_vector());
    CHECK(equal(clone(turned), contiguous(turned)));
    CHECK(!equal(x, zeros_like(x)));
    CHECK(allclose(full({2, 3}, 0.1, dtype), full({2, 3}, 0.1, DType::f64), 0x1p-8, 0));
    CHECK(arange(std::int64_t{4}, dtype).to_vector() == std::vector<double>{0, 1, 2, 3});
    CHECK(select(narrow(x, 1, 1, 2), 0, 1).to_vector() == std::vector<double>{5, 0.5});
    CHECK(expand(select(x, 0, 0), {2, 3}).to_vector() ==
          std::vector<double>{1, 2.5, -3, 1, 2.5, -3});
    CHECK(select(select(x, 0, 1), 0, 2).item() == 0.5);
    CHECK(to(x, DType::i64).to_vector<std::int64_t>() ==
          std::vector<std::int64_t>{1, 2, -3, 4, 5, 0});
    CHECK(to(to(x, DType::boolean), dtype).to_vector() == std::vector<double>(6, 1.0));
    const Tensor y = zeros({2, 3}, dtype);
    copy_(y, to(x, DType::f64));
    CHECK(equal(y, x));
    fill_(select(y, 0, 0), 7);
    CHECK(y.to_vector() == std::vector<double>{7, 7, 7, 4, 5, 0.5});
  }
}

TEST_CASE("to is differentiable between all floating types, and gradients add up in them") {
  const Tensor x = parameter(tensor({1.5, -2, 0.25}, DType::f64));
  for (const DType dtype : storage_dtypes) {
    Tape tape;
    const Tensor stored = to(x, dtype);
    const Tensor a = to(stored, DType::f64), b = to(narrow(stored, 0, 1, 2), DType::f32);
    const Tensor square = sum(mul(a, a)), rest = to(sum(b), DType::f64);
    const Tensor loss = add(square, rest);
    CHECK(tape.gradient(loss, {x, stored}, {}, {.keep = true})[stored].dtype() == dtype);
    CHECK(tape.gradient(loss, {x}, {}, {.keep = true})[x].to_vector() ==
          std::vector<double>{3, -3, 1.5});
    const Tensor dx = tape.gradient(loss, {x}, {}, {.create_graph = true})[x];
    CHECK(tape.gradient(sum(dx), {x})[x].to_vector() == std::vector<double>{2, 2, 2});
  }
}

TEST_CASE("a parameter in bf16 has its gradient in bf16, rounded once where it is expanded") {
  const Tensor w = parameter(tensor({{0.5}, {2}}, DType::bf16));
  Tape tape;
  const Tensor wide = to(expand(w, {2, 300}), DType::f32);
  const Tensor loss = sum(wide);
  Gradients g = tape.gradient(loss, {w});
  CHECK(g[w].dtype() == DType::bf16);
  CHECK(g[w].to_vector() == std::vector<double>{300, 300});
  g += g;
  g *= 0.25;
  CHECK(g[w].to_vector() == std::vector<double>{150, 150});
  check_throws(ErrorKind::dtype, {"AdamW", "bf16", "to(x, DType::f32)"},
               [&] { nn::AdamW optimizer(std::vector<Tensor>{w}, {}); });
}

TEST_CASE(
    "a real run refuses every other operation by name and names the cast; a dry run plans it") {
  std::size_t refused = 0, moved = 0;
  for (const OperationCase& row : operation_cases()) {
    CAPTURE(row.name());
    for (const DType dtype : storage_dtypes) {
      const auto run = [&] {
        In inputs = make_inputs(row, shape_variations(row).front());
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          if (!is_floating(inputs[i].dtype())) continue;
          inputs[i] =
              DryRun::active() ? empty("x", inputs[i].shape(), dtype) : to(inputs[i], dtype);
          if (row.inputs()[i].is_differentiable()) inputs[i] = parameter(std::move(inputs[i]));
        }
        const std::vector<Tensor> wrt = differentiable(row, inputs);
        Tape tape;
        const std::vector<Tensor> results = row.call(inputs);
        std::vector<Tensor> upstream;
        for (const Tensor& y : results) upstream.push_back(ones_like(y));
        gradients_of(tape, results, upstream, wrt);
        return tape.graph();
      };
      const std::optional<Thrown> thrown = thrown_by([&] { run(); });
      if (thrown) {
        CHECK_MESSAGE(thrown->kind == ErrorKind::dtype, thrown->text);
        CHECK_MESSAGE(thrown->text.find("to(x, DType::f32)") != std::string::npos, thrown->text);
        // "mul_scalar" stands for a row of mul, "dropout" for one of replay_dropout.
        const std::string named = thrown->text.substr(0, thrown->text.find(':'));
        CHECK_MESSAGE((named.find(row.operation()) != std::string::npos ||
                       row.operation().find(named) != std::string::npos),
                      thrown->text);
      }
      const DryRun dry;
      std::optional<Graph> planned;
      CHECK_MESSAGE(!thrown_by([&] { planned = run(); }), row.name());
      if (!planned) continue;
      const bool any = std::any_of(planned->nodes.begin(), planned->nodes.end(),
                                   [](const Graph::Node& node) { return node.planned; });
      if (!planned->nodes.empty()) CHECK(any == thrown.has_value());
      ++(thrown ? refused : moved);
    }
  }
  CHECK(refused > 100);
  CHECK(moved > 20);
}

TEST_CASE("operations without a row refuse bf16 and f16, too") {
  const Tensor x = ones({2}, DType::bf16);
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"eq", [&] { eq(x, x); }},
      {"lt", [&] { lt(x, 1.0); }},
      {"isnan", [&] { isnan(x); }},
      {"rand", [] { rand({2}, DType::bf16); }},
      {"randn", [] { randn({2}, DType::f16); }},
      {"uniform", [] { uniform({2}, 0, 1, DType::f16); }},
      {"multinomial", [&] { multinomial(x, 1); }}};
  for (const auto& [name, call] : calls)
    check_throws(ErrorKind::dtype, {name + ": ", "only stores", "to(x, DType::f32)"}, call);
  check_throws(ErrorKind::dtype, {"only stores"}, [&] { x.view(); });
}

TEST_CASE("a graph says which operations are planned, and so do its file and its table") {
  const DryRun dry;
  const Tensor w = parameter(empty("w", {4, 3}, DType::bf16));
  Tape tape;
  const Tensor wide = to(transpose(w, 0, 1), DType::f32);
  const Tensor proven = mul(wide, wide);
  const Tensor planned = mul(w, w);
  const Graph graph = tape.graph();
  REQUIRE(graph.nodes.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(graph.nodes[i].planned == (i == 3));
  CHECK(graph::from_json(graph::to_json(graph)) == graph);
  CHECK(graph::saved_table(graph).find("a real run refuses 1 of these") != std::string::npos);
}

TEST_CASE("ST-4: f16 and bf16 from a file are the numbers that were meant, and go back unchanged") {
  const Folder folder;
  const std::vector<unsigned> f16 = {0x0001, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0x8001};
  const std::vector<unsigned> bf16 = {0x3F80, 0xC0A0, 0x0001};
  nn::save_safetensors(folder.file(),
                       {{"half", from_bits(f16, DType::f16)},
                        {"brain", from_bits(bf16, DType::bf16)},
                        {"turned", transpose(tensor({{1, 2}, {3, 4}}, DType::bf16), 0, 1)}});
  const nn::Safetensors loaded = nn::load_safetensors(folder.file());
  REQUIRE(loaded.tensors.size() == 3);
  for (const nn::NamedTensor& entry : loaded.tensors) {
    if (entry.name == "half") {
      CHECK(entry.tensor.dtype() == DType::f16);
      CHECK(to(entry.tensor, DType::f32).to_vector<float>() ==
            std::vector<float>{5.960464477539063e-08f, 6.097555160522461e-05f, 6.103515625e-05f, 1,
                               65504, -5.960464477539063e-08f});
    } else if (entry.name == "brain") {
      CHECK(entry.tensor.dtype() == DType::bf16);
      CHECK(to(entry.tensor, DType::f32).to_vector<float>() ==
            std::vector<float>{1, -5, 9.183549615799121e-41f});
    } else {
      CHECK(entry.tensor.to_vector() == std::vector<double>{1, 3, 2, 4});
    }
  }
  nn::save_safetensors(folder.file("again"), loaded.tensors);
  const nn::Safetensors again = nn::load_safetensors(folder.file("again"));
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(equal(again.tensors[i].tensor, loaded.tensors[i].tensor));
}

TEST_CASE("a module of f32 or f64 loads a state dict in bf16 or f16, which it holds exactly") {
  nn::Linear linear({.in_features = 3, .out_features = 2});
  for (const DType dtype : storage_dtypes) {
    nn::StateDict state = linear.state_dict();
    for (nn::NamedTensor& entry : state) entry.tensor = full(entry.tensor.shape(), 0.1, dtype);
    linear.load_state_dict(state);
    const double stored = full({}, 0.1, dtype).item();
    CHECK(linear.weight.dtype() == DType::f32);
    CHECK(linear.weight.to_vector() == std::vector<double>(6, stored));
    CHECK(linear.bias.to_vector() == std::vector<double>(2, stored));
  }
  nn::StateDict wide = linear.state_dict();
  for (nn::NamedTensor& entry : wide) entry.tensor = to(entry.tensor.detach(), DType::f64);
  check_throws(ErrorKind::value, {"\"weight\" is f64 (2, 3) in place of f32"},
               [&] { linear.load_state_dict(wide); });
}

TEST_CASE("a view hands out elements as what they are, and no others") {
  const Tensor x = tensor({1, 2});
  CHECK(x.view().as<float>()[1] == 2);
  CHECK(x.view().as<const float>()[0] == 1);
  CHECK(x.view().as<std::byte>() == static_cast<void*>(x.view().as<float>()));
  check_throws(ErrorKind::dtype, {"elements of f32", "as those of f64"},
               [&] { x.view().as<double>(); });
  check_throws(ErrorKind::dtype, {"elements of bool", "as those of i64"},
               [&] { ones({2}, DType::boolean).view().as<std::int64_t>(); });
}
