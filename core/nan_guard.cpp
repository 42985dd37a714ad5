#include <tapehead/core/dry_run.h>
#include <tapehead/core/nan_guard.h>
#include <tapehead/core/node.h>
#include <tapehead/core/scope.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

namespace tapehead {
namespace {

// Whether x holds neither NaN nor infinity. Every result is asked, so this is a plain loop.
bool is_finite(const Tensor& x) {
  const View view = x.any_view();
  const auto loop = merge_dims<1>(view.shape, {&view.strides});
  const std::int64_t step = loop.inner_stride(0);
  std::atomic<bool> finite = true;
  visit_any(view.dtype, [&](auto zero) {
    const auto* data = view.as<const decltype(zero)>();
    parallel_runs(loop, cheap_grain, [&](const auto& offsets, std::int64_t count) {
      bool run_is_finite = true;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto value = static_cast<double>(data[offsets[0] + i * step]);
        run_is_finite &= value - value == 0;
      }
      if (!run_is_finite) finite.store(false, std::memory_order_relaxed);
    });
  });
  return finite;
}

// What stands in a tensor, read from its first element to its last.
struct Contents {
  std::optional<std::size_t> first_nan, first_infinity;  // counted in row-major order
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -std::numeric_limits<double>::infinity();

  explicit Contents(const Tensor& x) {
    const View view = x.any_view();
    const auto loop = merge_dims<1>(view.shape, {&view.strides});
    const std::int64_t step = loop.inner_stride(0);
    std::size_t element = 0;
    visit_any(view.dtype, [&](auto zero) {
      const auto* data = view.as<const decltype(zero)>();
      for_each_run(loop, 0, x.numel(), [&](const auto& offsets, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i)
          add(element++, static_cast<double>(data[offsets[0] + i * step]));
      });
    });
  }

 private:
  void add(std::size_t element, double value) {
    if (std::isnan(value)) {
      if (!first_nan) first_nan = element;
      return;
    }
    if (std::isinf(value) && !first_infinity) first_infinity = element;
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
};

// What an operation read that explains a NaN or an infinity in what it made.
class Excuses {
 public:
  explicit Excuses(const Node& node) {
    for (const Graph::Attribute& attribute : node.attributes())
      if (const double* value = std::get_if<double>(&attribute.value)) {
        nan_ = nan_ || std::isnan(*value);
        infinity_ = infinity_ || !std::isfinite(*value);
      }
  }

  void add(const Tensor& read) {
    if (!is_floating(read.dtype())) return;
    infinity_ = infinity_ || read.numel() == 0;  // the sum of no exponentials has the log -inf
    if (is_finite(read)) return;
    infinity_ = true;
    nan_ = nan_ || Contents(read).first_nan;
  }

  // The first NaN of y, or else its first infinity, unless what was read explains it.
  std::optional<std::size_t> alarm(const Tensor& y) const {
    const Contents contents(y);
    const auto& first = contents.first_nan ? contents.first_nan : contents.first_infinity;
    const bool excused = contents.first_nan ? nan_ : infinity_;
    return excused ? std::nullopt : first;
  }

 private:
  bool nan_ = false;
  bool infinity_ = false;
};

double value_at(const Tensor& x, const Dims& element) {
  std::int64_t offset = x.offset();
  for (int i = 0; i < x.rank(); ++i) offset += element[i] * x.strides()[i];
  return alias(x, {}, {}, offset).item<double>();
}

// The element of x that an element of a result of `shape` reads when x is broadcast to it.
std::optional<Dims> broadcast_element(const Tensor& x, const Dims& element, const Shape& shape) {
  const int missing = shape.rank() - x.rank();
  if (missing < 0) return {};
  Dims own(x.rank(), 0);
  for (int i = 0; i < x.rank(); ++i) {
    if (x.shape()[i] == shape[missing + i]) own[i] = element[missing + i];
    else if (x.shape()[i] != 1) return {};
  }
  return own;
}

NanReport::Operand operand(std::string name, const Tensor& x, const NanReport& report,
                           const Shape& shape) {
  const Contents contents(x);
  NanReport::Operand described{std::move(name), describe(x), {}, contents.lowest, contents.highest};
  if (const auto own = broadcast_element(x, report.element, shape))
    described.there = value_at(x, *own);
  return described;
}

// What a report says of the element itself.
NanReport report_on(const Node& node, const Tensor& y, std::size_t element) {
  NanReport report;
  report.operation = node.operation();
  report.module = ModuleScope::path();
  report.tensor = describe(y);
  report.element = unravel(element, y.shape());
  report.value = value_at(y, report.element);
  return report;
}

std::optional<std::int64_t> empty_row_dim(const Node& node, const Tensor& x, const Tensor& y,
                                          const NanReport& report) {
  if (!std::isnan(report.value) || x.shape() != y.shape()) return {};
  for (const Graph::Attribute& attribute : node.attributes()) {
    const auto* dim = std::get_if<std::int64_t>(&attribute.value);
    if (!dim || attribute.name != "dim" || *dim >= x.rank()) continue;
    Dims element = report.element;
    bool sees_nothing = true;
    for (element[*dim] = 0; sees_nothing && element[*dim] < x.shape()[*dim]; ++element[*dim])
      sees_nothing = value_at(x, element) == -std::numeric_limits<double>::infinity();
    if (sees_nothing) return *dim;
  }
  return {};
}

// ---- words -------------------------------------------------------------------------------------

std::string number(double value) { return format_number(value, std::chars_format::general, 9); }

std::string in_words(const NanReport::Operand& operand) {
  std::string text = operand.name + " " + operand.tensor + " ";
  if (operand.there) text += "is " + number(*operand.there) + " there ";
  if (operand.lowest > operand.highest) return text + "(without a number)";
  return text + "(from " + number(operand.lowest) + " to " + number(operand.highest) + ")";
}

std::string row_in_words(const NanReport& report) {
  std::string text;
  for (int i = 0; i < report.element.rank(); ++i)
    text += (i > 0 ? ", " : "") +
            (i == *report.empty_row_dim ? ":" : std::to_string(report.element[i]));
  return "row (" + text + ") of input 0 is -inf throughout: it sees nothing";
}

std::string message(const NanReport& report) {
  const bool is_nan = std::isnan(report.value);
  std::string text = (is_nan ? "NaN" : number(report.value)) + " at " + to_string(report.element);
  text += report.is_backward() ? " of the gradient of input " + std::to_string(report.input) + " "
                               : std::string(" of the result ");
  text += report.tensor;
  text += is_nan ? ", though no operand holds a NaN" : ", though all operands are finite";
  std::string before = ": ";
  for (const NanReport::Operand& each : report.operands) {
    text += before + in_words(each);
    before = "; ";
  }
  if (report.empty_row_dim) text += before + row_in_words(report);
  return text;
}

}  // namespace

std::string to_string(const NanReport& report) {
  std::string text = report.operation + ": " + message(report);
  if (!report.module.empty()) text += " [in " + report.module + "]";
  return text;
}

// Thrown where the operation ran, so Error adds the module path that the report has.
NanError::NanError(std::shared_ptr<const NanReport> report)
    : Error(ErrorKind::nan, report->operation, message(*report)), report_(std::move(report)) {}

// ---- the guard ---------------------------------------------------------------------------------

NanGuard::~NanGuard() {
  for (Rule* rule = Rule::innermost(); rule; rule = rule->outer())
    if (rule->guard_ == this) rule->guard_ = nullptr;
}

bool NanGuard::is_waiting() const { return !report_ && !DryRun::active(); }

// A view shows what was looked at when it was made.
bool NanGuard::is_suspicious(const Tensor& y, std::span<const Tensor* const> inputs) const {
  if (!is_waiting() || rules_running_ > 0 || !is_floating(y.dtype())) return false;
  for (const Tensor* input : inputs)
    if (input->storage() == y.storage()) return false;
  return !is_finite(y);
}

void NanGuard::examine(const Node& node, const Tensor& y, std::span<const Tensor* const> inputs) {
  Excuses excuses(node);
  for (const Tensor* input : inputs) excuses.add(*input);
  const auto element = excuses.alarm(y);
  if (!element) return;
  NanReport report = report_on(node, y, *element);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    report.operands.push_back(operand("input " + std::to_string(i), *inputs[i], report, y.shape()));
  report.empty_row_dim = empty_row_dim(node, *inputs.front(), y, report);
  innermost()->raise(std::move(report));
}

void NanGuard::raise(NanReport report) {
  report_ = std::make_shared<const NanReport>(std::move(report));
  if (options_.raise) throw NanError(report_);
}

// ---- rules -------------------------------------------------------------------------------------

void NanGuard::Rule::begin(const Node& node, const Tensor& g, const std::vector<Tensor>& partials) {
  guard_ = NanGuard::innermost();
  node_ = &node;
  g_ = g;
  for (const Edge input : node.inputs()) {
    const bool has_partial = input.tracked && partials[input.value].defined();
    finite_partials_.push_back(!has_partial || is_finite(partials[input.value]));
  }
  ++guard_->rules_running_;
}

void NanGuard::Rule::end() {
  --guard_->rules_running_;
  guard_ = nullptr;
}

void NanGuard::Rule::examine(const Wanted& wanted, Grads& gradients) {
  NanGuard& guard = *guard_;
  end();
  // A rule inside this one may have had its alarm.
  for (std::size_t k = 0; k < finite_partials_.size() && guard.is_waiting(); ++k) {
    const bool given = wanted[k] && k < gradients.size() && gradients[k].defined();
    if (given && finite_partials_[k] && !is_finite(gradients[k]))
      guard.examine_gradient(*node_, g_, k, gradients[k]);
  }
}

void NanGuard::examine_gradient(const Node& node, const Tensor& g, std::size_t input,
                                const Tensor& gradient) {
  std::vector<const Saved*> kept;
  for (const Saved* saved = node.first_saved_; saved; saved = saved->next_)
    if (saved->tensor_.defined()) kept.push_back(saved);  // else packed, not read
  Excuses excuses(node);
  excuses.add(g);
  for (const Saved* saved : kept) excuses.add(saved->tensor_);
  const auto element = excuses.alarm(gradient);
  if (!element) return;
  NanReport report = report_on(node, gradient, *element);
  report.input = static_cast<std::int64_t>(input);
  report.operands.push_back(operand("g", g, report, gradient.shape()));
  for (const Saved* saved : kept)
    report.operands.push_back(operand(saved->name(), saved->tensor_, report, gradient.shape()));
  raise(std::move(report));
}

}  // namespace tapehead
