#include <tapehead/core/error.h>
#include <tapehead/ops/print.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string_view>
#include <vector>

namespace tapehead {
namespace {

constexpr std::int64_t shown_in_full = 1000;  // elements
constexpr std::int64_t edge = 3;              // positions shown at each end of a dim
constexpr std::string_view opening = "tensor(";

// How the floating numbers of one tensor are written.
enum class Style { integer, fixed, scientific };

std::string formatted(double value, Style style) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  switch (style) {
    case Style::integer: return format_number(value, std::chars_format::fixed, 0);
    case Style::fixed: return format_number(value, std::chars_format::fixed, 4);
    case Style::scientific: return format_number(value, std::chars_format::scientific, 4);
  }
  return {};
}

// PyTorch's choice: scientific when the sizes of the numbers lie more than 1000 apart, or are
// beyond what four decimals can show.
Style style_for(const std::vector<double>& values) {
  double largest = 0, smallest = HUGE_VAL;
  bool all_integers = true;
  for (const double value : values) {
    const double size = std::abs(value);
    if (size == 0 || !std::isfinite(size)) continue;
    largest = std::max(largest, size);
    smallest = std::min(smallest, size);
    all_integers = all_integers && value == std::floor(value);
  }
  const bool far_apart = largest > 1000 * smallest;
  if (all_integers) return largest < 1e8 ? Style::integer : Style::scientific;
  return far_apart || largest >= 1e8 || smallest < 1e-4 ? Style::scientific : Style::fixed;
}

// How many elements there are to write, where an empty row counts as one: it has its brackets.
double brackets(const Shape& shape) {
  double count = 1;
  for (const std::int64_t size : shape)
    count *= static_cast<double>(std::max<std::int64_t>(size, 1));
  return count;
}

// One pass over the elements to show, in row-major order.
class Printer {
 public:
  explicit Printer(const Tensor& x) : x_(x.any_view()), cut_(brackets(x.shape()) > shown_in_full) {}

  std::string text() {
    collect(0, 0);
    write_elements();
    for (const std::string& element : elements_) width_ = std::max(width_, element.size());
    std::string text;
    std::size_t next = 0;
    print(0, text, next);
    return text;
  }
  bool cut() const { return cut_; }

 private:
  // Positions of a dim that are shown; -1 stands for those left out.
  std::vector<std::int64_t> shown(int dim) const {
    const std::int64_t size = x_.shape[dim];
    const bool gap = cut_ && size > 2 * edge;
    std::vector<std::int64_t> positions;
    for (std::int64_t i = 0; i < size; ++i) {
      if (gap && i == edge) {
        positions.push_back(-1);
        i = size - edge;
      }
      positions.push_back(i);
    }
    return positions;
  }

  void collect(int dim, std::int64_t offset) {
    if (dim == x_.shape.rank()) {
      offsets_.push_back(offset);
      return;
    }
    for (const std::int64_t i : shown(dim))
      if (i >= 0) collect(dim + 1, offset + i * x_.strides[dim]);
  }

  void write_elements() {
    switch (x_.dtype) {
      case DType::f32: return write_floating<float>();
      case DType::f64: return write_floating<double>();
      case DType::bf16: return write_floating<BFloat16>();
      case DType::f16: return write_floating<Float16>();
      case DType::i64:
        for (const std::int64_t offset : offsets_)
          elements_.push_back(std::to_string(x_.as<const std::int64_t>()[offset]));
        return;
      case DType::boolean:
        for (const std::int64_t offset : offsets_)
          elements_.push_back(x_.as<const bool>()[offset] ? "true" : "false");
        return;
    }
  }

  template <class T>
  void write_floating() {
    std::vector<double> values;
    for (const std::int64_t offset : offsets_)
      values.push_back(static_cast<double>(x_.as<const T>()[offset]));
    const Style style = style_for(values);
    for (const double value : values) elements_.push_back(formatted(value, style));
  }

  void print(int dim, std::string& text, std::size_t& next) const {
    if (dim == x_.shape.rank()) {
      const std::string& element = elements_[next++];
      if (dim > 0) text.append(width_ - element.size(), ' ');
      text += element;
      return;
    }
    const std::string separator = separator_of(dim);
    text += '[';
    bool first = true;
    for (const std::int64_t i : shown(dim)) {
      if (!first) text += separator;
      first = false;
      if (i < 0) text += "...";
      else print(dim + 1, text, next);
    }
    text += ']';
  }

  // Rows stand one below the other, larger blocks with empty lines between them.
  std::string separator_of(int dim) const {
    const auto inner_dims = static_cast<std::size_t>(x_.shape.rank() - 1 - dim);
    if (inner_dims == 0) return ", ";
    std::string separator = ",";
    separator.append(inner_dims, '\n');
    return separator.append(opening.size() + static_cast<std::size_t>(dim) + 1, ' ');
  }

  View x_;
  bool cut_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::string> elements_;
  std::size_t width_ = 0;
};

}  // namespace

std::string to_string(const Tensor& x) {
  std::string text(opening);
  if (!x.defined()) return text + "undefined)";
  const std::string dtype(to_string(x.dtype())), shape = to_string(x.shape());
  if (x.storage()->is_dry()) return text + "no values, " + dtype + " " + shape + ")";
  Printer printer(x);
  text += printer.text() + ", " + dtype;
  if (printer.cut() || x.numel() == 0) text += " " + shape;
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }
std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << to_string(dims); }

}  // namespace tapehead
