#include <tapehead/core/error.h>
#include <tapehead/nn/mask.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/views.h>

#include <optional>

namespace tapehead::nn {

struct Mask::Rule {
  virtual ~Rule() = default;
  /// As Mask::hidden: defined, bool, broadcasts to `scores`.
  virtual Tensor hidden(const Shape& scores) const = 0;
};

namespace {

std::int64_t queries(const Shape& scores) { return scores[scores.rank() - 2]; }
std::int64_t keys(const Shape& scores) { return scores.back(); }

void check_fits(const char* operation, const Tensor& tensor, const Shape& scores) {
  const int excess = scores.rank() - tensor.rank();
  bool fits = excess >= 0;
  for (int i = 0; fits && i < tensor.rank(); ++i)
    fits = tensor.shape()[i] == 1 || tensor.shape()[i] == scores[i + excess];
  if (!fits)
    throw ShapeError(operation, "mask " + to_string(tensor.shape()) +
                                    " does not broadcast to scores " + to_string(scores));
}

// ---- kinds -------------------------------------------------------------------------------------

struct Causal final : Mask::Rule {
  std::optional<Align> align;
  std::optional<std::int64_t> offset;

  Tensor hidden(const Shape& scores) const override {
    const std::int64_t first = first_offset(scores);
    const Tensor last_seen = arange(static_cast<double>(first),
                                    static_cast<double>(first + queries(scores)), 1, DType::i64);
    return gt(arange(keys(scores)), unsqueeze(last_seen, 1));
  }

  // The last key that query 0 sees.
  std::int64_t first_offset(const Shape& scores) const {
    if (offset) return *offset;
    if (align == Align::top_left) return 0;
    const std::int64_t surplus = keys(scores) - queries(scores);
    if (!align && surplus != 0)
      throw ShapeError("Mask::causal",
                       std::to_string(queries(scores)) + " queries and " +
                           std::to_string(keys(scores)) +
                           " keys differ, so the triangle must be placed: Align::bottom_right "
                           "(the last query sees all keys, as decoding needs), Align::top_left "
                           "(as PyTorch's is_causal), or the offset of the first query");
    return surplus;
  }
};

// Of keys, alike for all queries: (S), or (batch, S) spread over the dims between.
struct HiddenKeys final : Mask::Rule {
  Tensor tensor;

  Tensor hidden(const Shape& scores) const override {
    if (tensor.rank() == 2 && scores.rank() < 3)
      throw ShapeError("Mask::padding", "padding " + to_string(tensor.shape()) +
                                            " has a batch, scores " + to_string(scores) +
                                            " have none");
    Tensor spread = tensor;
    if (tensor.rank() == 2) {
      Shape shape(scores.rank(), 1);
      shape[0] = tensor.shape()[0];
      shape[scores.rank() - 1] = tensor.shape()[1];
      spread = reshape(tensor, shape);
    }
    check_fits("Mask::padding", spread, scores);
    return spread;
  }
};

struct Lengths final : Mask::Rule {
  std::vector<std::int64_t> lengths;

  Tensor hidden(const Shape& scores) const override {
    for (const std::int64_t length : lengths)
      if (length > keys(scores))
        throw ShapeError("Mask::padding", "length " + std::to_string(length) +
                                              " is more than the " + std::to_string(keys(scores)) +
                                              " keys");
    const Tensor ends = from_vector(lengths, {static_cast<std::int64_t>(lengths.size()), 1});
    HiddenKeys padding;
    padding.tensor = ge(arange(keys(scores)), ends);
    return padding.hidden(scores);
  }
};

struct Hidden final : Mask::Rule {
  Tensor tensor;

  Tensor hidden(const Shape& scores) const override {
    if (tensor.rank() > 2 && tensor.rank() != scores.rank())
      throw ShapeError("Mask", "mask " + to_string(tensor.shape()) + " and scores " +
                                   to_string(scores) +
                                   ": a mask of more than two dims must have the scores' rank; "
                                   "unsqueeze() the dims that it leaves out");
    check_fits("Mask", tensor, scores);
    return tensor;
  }
};

struct Combined final : Mask::Rule {
  Mask a, b;
  Tensor (*combine)(const Tensor&, const Tensor&) = nullptr;  // of what is hidden

  Tensor hidden(const Shape& scores) const override {
    const Tensor hidden_a = a.hidden(scores);
    const Tensor hidden_b = b.hidden(scores);
    return combine(hidden_a, hidden_b);
  }
};

struct Prepared final : Mask::Rule {
  Mask mask;
  Shape shape;
  Tensor tensor;  // mask.hidden(shape)

  Tensor hidden(const Shape& scores) const override {
    return scores == shape ? tensor : mask.hidden(scores);
  }
};

// ---- printing ----------------------------------------------------------------------------------

std::string list(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

// One matrix, row-major from `hidden`.
std::string grid_of(std::vector<bool>::const_iterator hidden, std::int64_t rows,
                    std::int64_t columns) {
  std::string text;
  std::vector<std::int64_t> blind;
  for (std::int64_t i = 0; i < rows; ++i) {
    bool sees_a_key = false;
    for (std::int64_t j = 0; j < columns; ++j, ++hidden) {
      text += *hidden ? 'x' : '.';
      sees_a_key = sees_a_key || !*hidden;
      text += j + 1 < columns ? " " : "";
    }
    text += '\n';
    if (!sees_a_key) blind.push_back(i);
  }
  return text + (blind.empty() ? "" : "queries that see nothing: " + list(blind) + "\n");
}

}  // namespace

// ---- Mask --------------------------------------------------------------------------------------

Mask Mask::causal() { return Mask(std::make_shared<Causal>()); }

Mask Mask::causal(Align align) {
  auto rule = std::make_shared<Causal>();
  rule->align = align;
  return Mask(std::move(rule));
}

Mask Mask::causal(std::int64_t offset) {
  if (offset < 0)
    throw ValueError("Mask::causal", "offset " + std::to_string(offset) + " must not be negative");
  auto rule = std::make_shared<Causal>();
  rule->offset = offset;
  return Mask(std::move(rule));
}

Mask Mask::padding(const Tensor& is_padding) {
  check_dtype("Mask::padding", "is_padding", is_padding, DType::boolean);
  if (is_padding.rank() != 1 && is_padding.rank() != 2)
    throw ShapeError("Mask::padding", "is_padding " + to_string(is_padding.shape()) +
                                          " must be (batch, keys) or (keys)");
  auto rule = std::make_shared<HiddenKeys>();
  rule->tensor = is_padding;
  return Mask(std::move(rule));
}

Mask Mask::padding(std::vector<std::int64_t> lengths) {
  for (const std::int64_t length : lengths)
    if (length < 0)
      throw ValueError("Mask::padding",
                       "length " + std::to_string(length) + " must not be negative");
  auto rule = std::make_shared<Lengths>();
  rule->lengths = std::move(lengths);
  return Mask(std::move(rule));
}

Mask Mask::keep(const Tensor& may_attend) {
  check_dtype("Mask::keep", "may_attend", may_attend, DType::boolean);
  return hide(logical_not(may_attend));
}

Mask Mask::hide(const Tensor& is_hidden) {
  check_dtype("Mask::hide", "is_hidden", is_hidden, DType::boolean);
  auto rule = std::make_shared<Hidden>();
  rule->tensor = is_hidden;
  return Mask(std::move(rule));
}

Mask operator&(const Mask& a, const Mask& b) {
  if (a.hides_nothing()) return b;
  if (b.hides_nothing()) return a;
  auto rule = std::make_shared<Combined>();
  rule->a = a;
  rule->b = b;
  rule->combine = logical_or;
  return Mask(std::move(rule));
}

Mask operator|(const Mask& a, const Mask& b) {
  if (a.hides_nothing() || b.hides_nothing()) return Mask();
  auto rule = std::make_shared<Combined>();
  rule->a = a;
  rule->b = b;
  rule->combine = logical_and;
  return Mask(std::move(rule));
}

Tensor Mask::hidden(const Shape& scores) const {
  if (scores.rank() < 2)
    throw ShapeError("Mask", "scores " + to_string(scores) + " must be (..., queries, keys)");
  return rule_ ? rule_->hidden(scores) : Tensor();
}

Mask Mask::prepared(const Shape& scores) const {
  if (hides_nothing()) return *this;
  auto rule = std::make_shared<Prepared>();
  rule->mask = *this;
  rule->shape = scores;
  rule->tensor = hidden(scores);
  return Mask(std::move(rule));
}

std::string Mask::grid(const Shape& scores) const {
  const Tensor mask = hides_nothing() ? zeros({1, 1}, DType::boolean) : hidden(scores);
  Shape shape = mask.shape();
  while (shape.rank() < 2) shape.insert(0, 1);
  shape[shape.rank() - 2] = queries(scores);
  shape[shape.rank() - 1] = keys(scores);
  const std::vector<bool> cells = expand(mask, shape).to_vector<bool>();
  const std::int64_t matrix = queries(scores) * keys(scores);
  const std::int64_t matrices = matrix == 0 ? 0 : numel(shape) / matrix;
  std::string text;
  for (std::int64_t m = 0; m < matrices; ++m) {
    if (matrices > 1) text += "matrix " + std::to_string(m) + ":\n";
    text += grid_of(cells.begin() + m * matrix, queries(scores), keys(scores));
  }
  return text;
}

}  // namespace tapehead::nn
