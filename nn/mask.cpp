#include <tapehead/core/error.h>
#include <tapehead/nn/check.h>
#include <tapehead/nn/mask_rules.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/views.h>

namespace tapehead::nn {

namespace {

void check_scores(const Shape& scores) {
  if (scores.rank() < 2)
    throw ShapeError("Mask", "scores " + to_string(scores) + " must be (..., queries, keys)");
}

void check_by_key(const char* operation, const char* name, const Tensor& tensor) {
  if (tensor.rank() != 1 && tensor.rank() != 2)
    throw ShapeError(operation, std::string(name) + " " + to_string(tensor.shape()) +
                                    " must be (batch, keys) or (keys)");
}

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

Mask Mask::causal() { return Mask(mask_rules::causal({})); }

Mask Mask::causal(Align align) { return Mask(mask_rules::causal({.align = align})); }

Mask Mask::causal(std::int64_t offset) {
  check_not_negative("Mask::causal", "offset", offset);
  return Mask(mask_rules::causal({.offset = offset}));
}

Mask Mask::window(std::int64_t width) {
  check_positive("Mask::window", "width", width);
  return Mask(mask_rules::window(width, {}));
}

Mask Mask::window(std::int64_t width, Align align) {
  check_positive("Mask::window", "width", width);
  return Mask(mask_rules::window(width, {.align = align}));
}

Mask Mask::window(std::int64_t width, std::int64_t offset) {
  check_positive("Mask::window", "width", width);
  check_not_negative("Mask::window", "offset", offset);
  return Mask(mask_rules::window(width, {.offset = offset}));
}

Mask Mask::prefix(std::int64_t length) {
  check_not_negative("Mask::prefix", "length", length);
  return Mask(mask_rules::prefix(length));
}

Mask Mask::documents(const Tensor& ids) {
  check_dtype("Mask::documents", "ids", ids, DType::i64);
  check_by_key("Mask::documents", "ids", ids);
  return Mask(mask_rules::documents(ids));
}

Mask Mask::padding(const Tensor& is_padding) {
  check_dtype("Mask::padding", "is_padding", is_padding, DType::boolean);
  check_by_key("Mask::padding", "is_padding", is_padding);
  return Mask(mask_rules::hidden_keys(is_padding));
}

Mask Mask::padding(std::vector<std::int64_t> lengths) {
  for (const std::int64_t length : lengths) check_not_negative("Mask::padding", "length", length);
  return Mask(mask_rules::lengths(std::move(lengths)));
}

Mask Mask::keep(const Tensor& may_attend) {
  check_dtype("Mask::keep", "may_attend", may_attend, DType::boolean);
  return hide(logical_not(may_attend));
}

Mask Mask::hide(const Tensor& is_hidden) {
  check_dtype("Mask::hide", "is_hidden", is_hidden, DType::boolean);
  return Mask(mask_rules::hidden(is_hidden));
}

Mask operator&(const Mask& a, const Mask& b) {
  if (a.hides_nothing()) return b;
  if (b.hides_nothing()) return a;
  return Mask(mask_rules::combined(a, b, true));
}

Mask operator|(const Mask& a, const Mask& b) {
  if (a.hides_nothing() || b.hides_nothing()) return Mask();
  return Mask(mask_rules::combined(a, b, false));
}

Tensor Mask::hidden(const Shape& scores) const {
  check_scores(scores);
  return rule_ ? rule_->hidden(scores) : Tensor();
}

Mask::Parts Mask::parts(const Shape& scores) const {
  check_scores(scores);
  return rule_ ? rule_->parts(scores) : Parts{};
}

Mask Mask::prepared(const Shape& scores) const {
  return hides_nothing() ? *this : Mask(mask_rules::prepared(*this, scores));
}

std::string Mask::grid(const Shape& scores) const {
  check_scores(scores);
  const std::int64_t queries = scores[scores.rank() - 2], keys = scores.back();
  const Tensor mask = hides_nothing() ? zeros({1, 1}, DType::boolean) : hidden(scores);
  Shape shape = mask.shape();
  while (shape.rank() < 2) shape.insert(0, 1);
  shape[shape.rank() - 2] = queries;
  shape[shape.rank() - 1] = keys;
  const std::vector<bool> cells = expand(mask, shape).to_vector<bool>();
  const std::int64_t matrix = queries * keys;
  const std::int64_t matrices = matrix == 0 ? 0 : numel(shape) / matrix;
  std::string text;
  for (std::int64_t m = 0; m < matrices; ++m) {
    if (matrices > 1) text += "matrix " + std::to_string(m) + ":\n";
    text += grid_of(cells.begin() + m * matrix, queries, keys);
  }
  return text;
}

}  // namespace tapehead::nn
