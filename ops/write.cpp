#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/write.h>

namespace tapehead {
namespace {

void check_writable(const char* operation, const Tensor& x) {
  check_defined(operation, "x", x);
  if (will_record(x))
    throw StateError(operation, "x " + describe(x) +
                                    " takes part in gradients and a tape is recording; write "
                                    "before the tape opens, or under Tape::Pause");
  if (is_expanded(x))
    throw ValueError(operation, "x " + describe(x) +
                                    " is expanded: more than one element stands in one place; "
                                    "clone() it first");
}

}  // namespace

void fill_(const Tensor& x, double value) {
  check_writable("fill_", x);
  x.storage()->bump_version();
  launch([&] { fill_values(x.any_view(), value); });
}

void copy_(const Tensor& x, const Tensor& src) {
  check_writable("copy_", x);
  check_defined("copy_", "src", src);
  require_no_gradient("copy_", {&src});
  if (!broadcasts_to(src.shape(), x.shape()))
    throw ShapeError("copy_", "src " + describe(src) + " does not broadcast to x " + describe(x));
  // A source in the same storage may overlap x, so it is read in full first.
  const bool may_overlap = x.storage() == src.storage();
  const Tensor from = may_overlap ? copied("copy_", src) : src;
  x.storage()->bump_version();
  launch([&] {
    View view = from.any_view();
    view.strides = expanded_strides(view.shape, view.strides, x.shape());
    view.shape = x.shape();
    copy_values(x.any_view(), view);
  });
}

}  // namespace tapehead
