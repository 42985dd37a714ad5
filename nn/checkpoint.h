// Activation checkpointing: keep the inputs of a piece of the model, and compute the rest again in
// the backward pass (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016). The
// meaning is that of torch.utils.checkpoint.
#pragma once

#include <tapehead/core/tensor.h>

#include <functional>
#include <vector>

namespace tapehead::nn {

/// A piece of a model: a function of the inputs, and of the parameters that it uses.
using Block = std::function<Tensor(const std::vector<Tensor>&)>;

/// y = f(inputs), recorded as one operation.
///
///     Tensor y = nn::checkpoint([&](const auto& in) { return block(in[0]); }, {x});
///
///   saves  the inputs, and the parameters that f used (which live anyway)
///   dx     f runs again under a tape of its own, which gives the gradients of the inputs and of
///          the parameters. They are those without checkpoint, bit for bit where each is used once.
///
/// f is kept as long as the tape: what it refers to must live until the backward pass. It runs
/// again in the same module path and is given the same random numbers, whatever generator they came
/// from (no generator moves), so dropout drops the same elements. Other tensors that were recorded
/// outside must come in as inputs; constants that f holds must not be written to in between.
/// Checkpoints may be nested, and differentiated again: under create_graph the gradient is itself a
/// checkpoint, of f followed by its backward pass. Where nothing records, it is f(inputs).
///
/// Errors of f pass through. StateError: f uses a tensor of the tape outside that is no input; in
/// the backward pass, an input or parameter was written to, or f did something else than before:
/// other operations, shapes or attributes, other inputs or parameters, another result, other random
/// numbers. Which constants f reads, and what stands in them, is not looked at. ValueError: no
/// function, an undefined input, or f returned nothing.
Tensor checkpoint(Block f, const std::vector<Tensor>& inputs);

}  // namespace tapehead::nn
