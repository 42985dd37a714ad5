// Matrix products, on BLAS. Strided operands (heads, transposes, slices) go to BLAS as they are,
// with a leading dimension; only layouts that BLAS cannot take are copied (an expanded row or
// column; repeated leading dims are never copied).
//
// Results are the same bits for the same number of threads; between different numbers the last bits
// may differ. One setting of the process is touched, OpenBLAS's thread count: see
// ops/kernels/blas.h.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// Of matmul().
struct MatmulOptions {
  double scale = 1;  ///< a factor of the product, folded into it: no pass of its own, but for 0
};

/// NumPy's matrix product, y = scale * a b: a (..., m, k), b (..., k, n) -> (..., m, n). A 1-D
/// operand is a row (a) or a column (b) whose dim disappears again; leading dims broadcast. An
/// inner size of 0 gives zeros.
/// saves b for da, a for db;  da = scale * g b^T, db = scale * a^T g, summed over the leading dims
/// in which the operand was broadcast (a shared weight's gradient is one product, not a batch of
/// them)
/// ShapeError: a 0-d operand, inner sizes differ, leading dims do not broadcast. DTypeError: the
/// operands are not floating, or not of one dtype.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {});
/// Product of two batches of matrices: matmul of (batch, m, k) and (batch, k, n), with equal batch.
/// ShapeError: other ranks, or batches that differ; else as matmul.
Tensor bmm(const Tensor& a, const Tensor& b);
/// Inner product of two 1-D tensors of equal size (ShapeError): 0-d. A matmul.
Tensor dot(const Tensor& a, const Tensor& b);
/// All products of two 1-D tensors (ShapeError): (n), (m) -> (n, m). A matmul of a column and a
/// row.
Tensor outer(const Tensor& a, const Tensor& b);

}  // namespace tapehead
