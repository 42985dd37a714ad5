// Attention as an operation of one's own, with the five lines of section 2.3 for its rule: what the
// lecture asks to be written as an autograd.Function (section B).
#pragma once

#include <tapehead/nn/mask.h>

namespace tapehead::program::lecture {

/// Y = softmax(Q K^T / sqrt(d_k), masked) V.
/// saves q, k, v, y, the mask;  dV = A^T dY, dA = dY V^T, D = sum(dY * Y), dS = A * (dA - D),
/// dQ = s dS K, dK = s dS^T Q, with A computed again from q and k
Tensor five_line_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                           const nn::Mask& mask = {});

}  // namespace tapehead::program::lecture
