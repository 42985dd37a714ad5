// Einstein summation.
#pragma once

#include <tapehead/core/tensor.h>

#include <string_view>
#include <vector>

namespace tapehead {

/// Sum of products by index names: einsum("bqd,bkd->bqk", {q, k}). Each operand names its dims by
/// letters, a-z and A-Z; spaces are ignored. The output holds the dims of the indices after "->";
/// an index that is not among them is summed over. An index repeated within one operand takes its
/// diagonal. "..." stands for any number of further dims (also none), aligned at their end as in
/// broadcasting; left out of the output they are summed over. An index may have size 1 in one
/// operand and n in another. Without "->" the output holds the dims of "...", then the letters that
/// occur once in the whole equation, in the order of their character codes.
///
/// A composition, left to right, of diagonal, permute, reshape, sum, mul, and matmul wherever two
/// operands share an index that is summed: it saves what those save, and costs as they do.
/// ValueError: a malformed equation; more or fewer operands than it names. ShapeError: an operand
/// of another rank, or sizes of one index that differ. DTypeError: not floating, or of two dtypes.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

}  // namespace tapehead
