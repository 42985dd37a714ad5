// Gradients: what Tape::gradient returns. A plain value; nothing piles up anywhere.
#pragma once

#include <tapehead/core/tensor.h>

#include <unordered_map>
#include <vector>

namespace tapehead {

/// The gradients of one call, looked up by the tensor that they belong to. Each gradient has the
/// shape and dtype of its tensor and, unless create_graph was asked for, a row-major storage of its
/// own.
class Gradients {
 public:
  Gradients() = default;

  /// The gradient of `of`, zeros when the output did not depend on it. StateError for a tensor that
  /// was not among those asked for.
  Tensor operator[](const Tensor& of) const;

  /// Whether the gradient of `of` was asked for.
  bool contains(const Tensor& of) const { return index_.contains(of.impl()); }
  /// Whether the output depended on `of` at all. False also means: an optimizer skips it.
  /// StateError as above.
  bool reached(const Tensor& of) const;

  /// Number of tensors asked for, each named once.
  std::size_t size() const { return of_.size(); }
  /// The tensors asked for, in the order of the call.
  const std::vector<Tensor>& of() const { return of_; }

  /// Adds the gradients of another call for the same tensors (micro-batches): reached if either
  /// was. StateError when the tensors differ, or when these gradients are recorded on a tape.
  Gradients& operator+=(const Gradients& other);
  /// Multiplies every gradient. StateError when these gradients are recorded on a tape.
  Gradients& operator*=(double factor);

  /// Enters the gradient of one more tensor, undefined when it was not reached.
  void insert(const Tensor& of, Tensor gradient);

 private:
  std::size_t find(const Tensor& of) const;

  std::vector<Tensor> of_;
  std::vector<Tensor> gradients_;
  std::unordered_map<const detail::TensorImpl*, std::size_t> index_;
};

}  // namespace tapehead
