#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/kernels/cross_entropy.h>
#include <tapehead/ops/kernels/reduce.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/reduce_node.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>

namespace tapehead {
namespace {

// ---- arguments ----------------------------------------------------------------------------------

// `name`: of x, in the operation's declaration.
void check_arguments(const char* operation, const char* name, const Tensor& x, const Tensor& target,
                     const CrossEntropyOptions& options) {
  check_floating(operation, name, x);
  check_dtype(operation, "target", target, DType::i64);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    throw ValueError(operation, "label_smoothing " + format_number(options.label_smoothing) +
                                    ": must be in [0, 1]");
  if (x.rank() == 0)
    throw ShapeError(operation, name + (" " + describe(x)) + ": a class dim is wanted");
  const int class_dim = x.rank() == 1 ? 0 : 1;
  Shape expected = x.shape();
  expected.erase(class_dim);
  if (target.shape() != expected)
    throw ShapeError(operation, "target " + describe(target) + " does not fit " + name + " " +
                                    describe(x) + ": it must have shape " + to_string(expected) +
                                    ", without the class dim " + std::to_string(class_dim));
  if (!options.weight.defined()) return;
  check_same_dtype(operation, x, options.weight, name, "weight");
  require_no_gradient(operation, {&options.weight});
  if (options.weight.shape() != Shape{x.shape()[class_dim]})
    throw ShapeError(operation, "weight " + describe(options.weight) + " must have shape (" +
                                    std::to_string(x.shape()[class_dim]) +
                                    "), one factor for each class");
}

// Logits as (rows, classes): any further dims join the batch.
Tensor as_rows(const Tensor& x) {
  if (x.rank() == 2) return x;
  if (x.rank() == 1) return unsqueeze(x, 0);
  const std::int64_t classes = x.shape()[1];
  Dims order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != 1) order.push_back(i);
  order.push_back(1);
  std::int64_t rows = x.shape()[0];
  for (int i = 2; i < x.rank(); ++i) rows *= x.shape()[i];
  return reshape(permute(x, order), {rows, classes});
}

// ---- the node -----------------------------------------------------------------------------------

// What the rules of both losses read beside their input.
class ClassLossNode : public Node {
 public:
  static constexpr const char* reason = "dlogits = (softmax(logits) * sum(q) - q) * g / count";

  explicit ClassLossNode(const char* operation) : Node(operation) {}
  Saved target{*this, "target", {0}, "q = (1 - s) * weight[target] * onehot + s / C * weight"};
  Saved weight{*this, "weight", {0}, "q = (1 - s) * weight[target] * onehot + s / C * weight"};
  Saved count{*this, "count", {0}, "dlogits is divided by the weight of the targets kept"};
  std::int64_t ignore_index = -100;
  double smoothing = 0;
  Reduction reduction = Reduction::mean;
  bool weighted = false;

  std::vector<Graph::Attribute> attributes() const override {
    return {{"ignore_index", ignore_index},
            {"label_smoothing", smoothing},
            {"reduction", std::string(to_string(reduction))},
            {"weighted", weighted}};
  }

 protected:
  // The saved tensors as the kernels take them, unpacked outside launch; they read data only
  // inside.
  struct Kept {
    Tensor target, weight, count;
    kernels::ClassTargets targets(const ClassLossNode& node) const;
    double divisor() const { return count.defined() ? *count.view().as<const double>() : 1; }
  };
  Kept kept() const { return {target.get_or_none(), weight.get_or_none(), count.get_or_none()}; }
  // q * factor / count.
  Tensor distribution(DType dtype, double factor) const;
};

// Reads data: only inside launch.
kernels::ClassTargets class_targets(const Tensor& target, const Tensor& weight,
                                    std::int64_t classes, std::int64_t ignore_index,
                                    double smoothing) {
  const View view = target.view();
  kernels::ClassTargets targets{};
  targets.target = view.as<const std::int64_t>();
  targets.target_step = view.strides[0];
  targets.weight = weight.defined() ? weight.view().data : nullptr;
  targets.rows = view.shape[0];
  targets.classes = classes;
  targets.ignore_index = ignore_index;
  targets.smoothing = smoothing;
  return targets;
}

kernels::ClassTargets ClassLossNode::Kept::targets(const ClassLossNode& node) const {
  return class_targets(target, weight, node.input_shape(0)[1], node.ignore_index, node.smoothing);
}

Tensor ClassLossNode::distribution(DType dtype, double factor) const {
  Tensor q = empty(operation(), input_shape(0), dtype);
  const Kept saved = kept();
  launch([&] {
    kernels::target_distribution(saved.targets(*this), factor / saved.divisor(), q.view());
  });
  return q;
}

// The gradient of the losses, to be multiplied with (rows, classes).
Tensor beside_classes(const Tensor& g) { return g.rank() == 0 ? g : unsqueeze(g, 1); }

struct CrossEntropyNode final : ClassLossNode {
  CrossEntropyNode() : ClassLossNode("cross_entropy") {}
  Saved logits{*this, "logits", {0}, reason, Saved::Exact{}};

  Grads backward(Tensor g, const Wanted&) override {
    if (Tape::recording()) return {composed(g), Tensor()};
    Tensor dlogits = empty(operation(), input_shape(0), g.dtype());
    const Kept saved = kept();
    const Tensor& x = logits.get();
    launch([&] {
      kernels::cross_entropy_backward(saved.targets(*this), x.view(), g.view(), saved.divisor(),
                                      dlogits.view());
    });
    return {dlogits, Tensor()};
  }

 private:
  Tensor composed(const Tensor& g) const {
    const Tensor q = distribution(g.dtype(), 1);
    const Tensor mass = sum(q, {1}, true);
    // Whatever ignored rows hold, even infinities, their gradients are 0 at every order.
    const Tensor ignored = unsqueeze(eq(target.get(), static_cast<double>(ignore_index)), 1);
    Tensor p = softmax(masked_fill(logits.get(), ignored, 0), 1);
    Tensor difference = sub(mul(std::move(p), mass), q);
    return mul(std::move(difference), beside_classes(g));
  }
};

struct NllLossNode final : ClassLossNode {
  NllLossNode() : ClassLossNode("nll_loss") {}

  Grads backward(Tensor g, const Wanted&) override {
    Tensor minus_q = distribution(g.dtype(), -1);
    return {mul(std::move(minus_q), beside_classes(g)), Tensor()};
  }
};

// ---- forward ------------------------------------------------------------------------------------

// `given` is the target before its dims were made one.
void check_targets(const char* operation, const kernels::ClassTargets& targets,
                   const Tensor& given) {
  if (const auto row = kernels::first_bad_target(targets)) {
    const Dims position = unravel(static_cast<std::size_t>(*row), given.shape());
    throw IndexError(operation, "target " + describe(given) + " holds " +
                                    std::to_string(targets.at(*row)) + " at " +
                                    to_string(position) + ", outside the classes [0, " +
                                    std::to_string(targets.classes) + ")");
  }
}

// Losses of rows, reduced: the result, the weight of the targets kept when it was divided by it,
// and the weights row-major, as the kernels read them.
struct Reduced {
  Tensor result, count, weight;
};

// `fill(targets, losses)` computes the losses, inside launch. `target` has one dim; the caller gave
// it as `given`.
template <class Fill>
Reduced reduced_losses(const char* operation, const Tensor& x, const Tensor& target,
                       const Tensor& given, const CrossEntropyOptions& options, Fill fill) {
  const DType dtype = x.dtype();
  const bool keeps_all = options.reduction == Reduction::none;
  const bool divides = options.reduction == Reduction::mean;
  const Tensor weight = options.weight.defined() ? contiguous(options.weight.detach()) : Tensor();
  Tensor losses = empty(operation, target.shape(), dtype);
  Tensor result = keeps_all ? losses : empty(operation, {}, dtype);
  Tensor count = divides ? empty(operation, {}, DType::f64) : Tensor();
  launch([&] {
    const auto targets =
        class_targets(target, weight, x.shape()[1], options.ignore_index, options.label_smoothing);
    check_targets(operation, targets, given);
    fill(targets, losses.view());
    if (keeps_all) return;
    double divisor = 1;
    if (divides) divisor = *count.view().as<double>() = kernels::kept_weight(targets, dtype);
    kernels::sum(losses.view(), detail::view_as(result, {1}), divisor);
  });
  return {result, count, weight};
}

void save_targets(ClassLossNode& node, const Tensor& target, const CrossEntropyOptions& options,
                  const Reduced& loss) {
  node.ignore_index = options.ignore_index;
  node.smoothing = options.label_smoothing;
  node.reduction = options.reduction;
  node.weighted = options.weight.defined();
  node.target.save(target);
  if (loss.weight.defined()) node.weight.save(loss.weight);
  if (loss.count.defined()) node.count.save(loss.count);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyOptions options) {
  check_arguments("cross_entropy", "logits", logits, target, options);
  Tensor rows = as_rows(logits);
  if (rows.strides()[1] != 1 && rows.shape()[1] != 1) rows = contiguous(rows);
  const Tensor classes = reshape(target, {rows.shape()[0]});
  const Reduced loss =
      reduced_losses("cross_entropy", rows, classes, target, options,
                     [&](const kernels::ClassTargets& targets, const View& losses) {
                       kernels::cross_entropy(targets, rows.view(), losses);
                     });
  const Tensor result =
      record<CrossEntropyNode>(loss.result, {&rows, &classes}, [&](CrossEntropyNode& node) {
        save_targets(node, classes, options, loss);
        node.logits.save(rows);
      });
  return options.reduction == Reduction::none ? reshape(result, target.shape()) : result;
}

Tensor nll_loss(const Tensor& x, const Tensor& target, std::int64_t ignore_index,
                Reduction reduction, const Tensor& weight) {
  const CrossEntropyOptions options{ignore_index, 0, reduction, weight};
  check_arguments("nll_loss", "x", x, target, options);
  const Tensor rows = as_rows(x);
  const Tensor classes = reshape(target, {rows.shape()[0]});
  const Reduced loss =
      reduced_losses("nll_loss", rows, classes, target, options,
                     [&](const kernels::ClassTargets& targets, const View& losses) {
                       kernels::nll(targets, rows.view(), losses);
                     });
  const Tensor result = record<NllLossNode>(loss.result, {&rows, &classes}, [&](NllLossNode& node) {
    save_targets(node, classes, options, loss);
  });
  return reduction == Reduction::none ? reshape(result, target.shape()) : result;
}

}  // namespace tapehead
