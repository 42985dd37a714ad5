#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/gradients.h>

namespace tapehead {
namespace {

// Makes the gradient one that may be written to: a copy, if it is expanded (as create_graph leaves
// the gradient of a sum) or if other handles or Gradients see it.
void make_writable(const char* operation, Tensor& gradient) {
  if (gradient.requires_grad())
    throw StateError(operation, "gradient " + describe(gradient) +
                                    " is recorded on a tape (create_graph); combine it with "
                                    "operations instead");
  if (is_exclusive(gradient)) return;
  gradient = copied(operation, gradient);
  gradient.storage()->set_category(Category::gradient);
}

}  // namespace

std::size_t Gradients::find(const Tensor& of) const {
  const auto found = index_.find(of.impl());
  if (found == index_.end())
    throw StateError("Gradients", "tensor " + describe(of) +
                                      " is not among those whose gradients were asked for");
  return found->second;
}

Tensor Gradients::operator[](const Tensor& of) const {
  const Tensor& gradient = gradients_[find(of)];
  if (gradient.defined()) return gradient;
  return filled("Gradients", of.shape(), of.dtype(), 0.0, Category::gradient);
}

bool Gradients::reached(const Tensor& of) const { return gradients_[find(of)].defined(); }

Gradients& Gradients::operator+=(const Gradients& other) {
  // All that can fail before the first write: an error leaves the sums as they were.
  if (other.size() != size())
    throw StateError("Gradients +=", "sums of " + std::to_string(size()) + " and " +
                                         std::to_string(other.size()) + " gradients do not match");
  std::vector<Tensor> first(size());  // of tensors that have none here yet
  for (std::size_t i = 0; i < size(); ++i) {
    const Tensor& more = other.gradients_[other.find(of_[i])];
    if (gradients_[i].defined()) {
      make_writable("Gradients +=", gradients_[i]);
    } else if (more.defined()) {
      first[i] = copied("Gradients +=", more);
      first[i].storage()->set_category(Category::gradient);
    }
  }
  for (std::size_t i = 0; i < size(); ++i) {
    if (first[i].defined()) {
      gradients_[i] = std::move(first[i]);
    } else if (const Tensor& more = other.gradients_[other.find(of_[i])]; more.defined()) {
      launch([&] { add_into(gradients_[i].any_view(), more.any_view()); });
      gradients_[i].storage()->bump_version();
    }
  }
  return *this;
}

Gradients& Gradients::operator*=(double factor) {
  for (Tensor& gradient : gradients_)
    if (gradient.defined()) make_writable("Gradients *=", gradient);
  for (const Tensor& gradient : gradients_) {
    if (!gradient.defined()) continue;
    launch([&] { scale_in_place(gradient.any_view(), factor); });
    gradient.storage()->bump_version();
  }
  return *this;
}

void Gradients::insert(const Tensor& of, Tensor gradient) {
  if (!index_.emplace(of.impl(), of_.size()).second) return;
  of_.push_back(of);
  gradients_.push_back(std::move(gradient));
}

}  // namespace tapehead
