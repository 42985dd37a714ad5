// What scenarios share: one pass forward and backward, and the comparison with float64.
#pragma once

#include <tapehead/core/tape.h>
#include <tapehead/nn/module.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace tapehead::program::bench {

/// y = f() and the gradients of `leaves`, from the gradient `seed` of y.
std::vector<Tensor> forward_backward(const std::function<Tensor()>& f,
                                     const std::vector<Tensor>& leaves, const Tensor& seed = {});

/// Bytes that the tape of f() keeps, parameters and inputs that exist anyway apart.
std::int64_t saved_bytes(const std::function<Tensor()>& f);

/// Floating-point operations of the matrix products of f() and of its gradients with respect to
/// both operands, which cost twice as much as the forward pass.
double product_flops(const std::function<Tensor()>& f);

/// The largest max |ours - reference| / max |reference| of a tensor; NaN when one holds a NaN.
double largest_error(const std::vector<Tensor>& ours, const std::vector<Tensor>& reference);

/// Gives a float64 module the values of one in float32.
void copy_values(const nn::Module& from, nn::Module& to);

/// A leaf in float64 with x's values.
Tensor reference_leaf(const Tensor& x);

}  // namespace tapehead::program::bench
