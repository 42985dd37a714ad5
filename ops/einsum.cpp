// Indices are characters, lists of indices are strings. In a parsed equation '.' stands for an
// ellipsis; once the operands' ranks are known it becomes the dims that it stands for, named by the
// characters '\1', '\2', ... from the left, so that they are indices like all others.
#include <tapehead/ops/binary.h>
#include <tapehead/ops/diagonal.h>
#include <tapehead/ops/einsum.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>

#include <algorithm>
#include <array>
#include <string>

namespace tapehead {
namespace {

bool has(const std::string& indices, char index) {
  return indices.find(index) != std::string::npos;
}

template <class Predicate>
std::string filter(const std::string& indices, Predicate&& predicate) {
  std::string result;
  std::copy_if(indices.begin(), indices.end(), std::back_inserter(result), predicate);
  return result;
}

// ---- the equation -------------------------------------------------------------------------------

struct Equation {
  std::vector<std::string> operands;
  std::string output;
};

[[noreturn]] void reject(std::string_view equation, const std::string& rule) {
  throw ValueError("einsum", "equation \"" + std::string(equation) + "\": " + rule);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Letters as they are, "..." as one '.'.
std::string parse_indices(std::string_view equation, std::string_view text) {
  std::string indices;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_letter(text[i])) {
      indices.push_back(text[i]);
    } else if (text.substr(i, 3) == "...") {
      if (has(indices, '.')) reject(equation, "an operand has two ellipses");
      indices.push_back('.');
      i += 2;
    } else {
      reject(equation, "'" + std::string(1, text[i]) + "' is no index, and has no meaning here");
    }
  }
  return indices;
}

void check_output(std::string_view equation, const std::string& output, const std::string& all) {
  for (const char index : output) {
    if (std::count(output.begin(), output.end(), index) > 1)
      reject(equation, std::string("output index ") + index + " is given twice");
    if (index != '.' && !has(all, index))
      reject(equation, std::string("output index ") + index + " is in no operand");
  }
}

// The ellipsis, then the letters that occur once, sorted ('.' stands before all letters).
std::string implicit_output(const std::string& all) {
  std::string output = filter(all, [&](char index) {
    return index != '.' && std::count(all.begin(), all.end(), index) == 1;
  });
  std::sort(output.begin(), output.end());
  return has(all, '.') ? "." + output : output;
}

Equation parse(std::string_view equation) {
  const std::string text = filter(std::string(equation), [](char c) { return c != ' '; });
  const std::size_t arrow = std::min(text.find("->"), text.size());
  Equation result;
  std::string all;
  for (std::size_t begin = 0; begin <= arrow;) {
    const std::size_t end = std::min(text.find(',', begin), arrow);
    result.operands.push_back(parse_indices(equation, text.substr(begin, end - begin)));
    all += result.operands.back();
    begin = end + 1;
  }
  if (arrow == text.size()) {
    result.output = implicit_output(all);
  } else {
    result.output = parse_indices(equation, text.substr(arrow + 2));
    check_output(equation, result.output, all);
  }
  return result;
}

// ---- the operands -------------------------------------------------------------------------------

struct Term {
  Tensor tensor;
  std::string indices;  // one for each dim
};

std::string operand_name(std::size_t i) { return "t" + std::to_string(i); }

void check_dtypes(const std::vector<Tensor>& operands) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    check_floating("einsum", operand_name(i), operands[i]);
    check_same_dtype("einsum", operands[0], operands[i], "t0", operand_name(i));
  }
}

// Dims that an operand's ellipsis stands for; 0 without one.
std::int64_t ellipsis_rank(const Equation& equation, const std::vector<Tensor>& operands,
                           std::size_t i) {
  const std::string& indices = equation.operands[i];
  const bool ellipsis = has(indices, '.');
  const std::int64_t named = static_cast<std::int64_t>(indices.size()) - (ellipsis ? 1 : 0);
  const std::int64_t rest = operands[i].rank() - named;
  if (rest < 0 || (rest > 0 && !ellipsis))
    throw ShapeError("einsum", operand_name(i) + " " + describe(operands[i]) + " has " +
                                   std::to_string(operands[i].rank()) + " dims, the equation " +
                                   "names " + std::to_string(named));
  return rest;
}

// The '.' replaced by the last `rank` of `all_ranks` numbered dims.
std::string with_ellipsis(const std::string& indices, std::int64_t rank, std::int64_t all_ranks) {
  std::string result;
  for (const char index : indices) {
    if (index != '.') result.push_back(index);
    else
      for (std::int64_t i = all_ranks - rank; i < all_ranks; ++i)
        result.push_back(static_cast<char>(i + 1));
  }
  return result;
}

// Each index must have one size, or 1.
void check_sizes(const std::vector<Term>& terms) {
  struct Use {
    std::int64_t size = 1;
    std::size_t operand = 0;
  };
  std::array<Use, 128> largest;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    for (std::size_t dim = 0; dim < terms[i].indices.size(); ++dim) {
      const std::int64_t size = terms[i].tensor.shape()[static_cast<std::int64_t>(dim)];
      Use& known = largest[static_cast<unsigned char>(terms[i].indices[dim])];
      if (size == 1 || size == known.size) continue;
      if (known.size != 1) {
        const char index = terms[i].indices[dim];
        const std::string name =
            is_letter(index) ? std::string("index ") + index : std::string("a dim of the ellipsis");
        throw ShapeError("einsum", name + " has size " + std::to_string(known.size) + " in " +
                                       operand_name(known.operand) + " " +
                                       describe(terms[known.operand].tensor) + " and " +
                                       std::to_string(size) + " in " + operand_name(i) + " " +
                                       describe(terms[i].tensor));
      }
      known = {size, i};
    }
  }
}

// An index that occurs twice takes the diagonal of its two dims, until none does.
Term with_diagonals(Term term, std::size_t operand) {
  for (std::size_t i = 0; i < term.indices.size(); ++i) {
    const char index = term.indices[i];
    const std::size_t again = term.indices.find(index, i + 1);
    if (again == std::string::npos) continue;
    const auto dim0 = static_cast<std::int64_t>(i), dim1 = static_cast<std::int64_t>(again);
    if (term.tensor.shape()[dim0] != term.tensor.shape()[dim1])
      throw ShapeError("einsum", operand_name(operand) + " " + describe(term.tensor) +
                                     ": repeated index " + index + " has sizes " +
                                     std::to_string(term.tensor.shape()[dim0]) + " and " +
                                     std::to_string(term.tensor.shape()[dim1]));
    term.tensor = diagonal(term.tensor, dim0, dim1);
    term.indices.erase(again, 1);
    term.indices.erase(i, 1);
    term.indices.push_back(index);
    --i;
  }
  return term;
}

// ---- products -----------------------------------------------------------------------------------

std::int64_t size_of_index(const Term& term, char index) {
  return term.tensor.shape()[static_cast<std::int64_t>(term.indices.find(index))];
}

Tensor reshaped(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : reshape(x, shape);
}

// The term with its dims in the order of `indices`, which are its own.
Term ordered(const Term& term, const std::string& indices) {
  if (term.indices == indices) return term;
  Dims dims;
  for (const char index : indices)
    dims.push_back(static_cast<std::int64_t>(term.indices.find(index)));
  return {permute(term.tensor, dims), indices};
}

Term summed(const Term& term, const std::string& indices) {
  Dims dims;
  for (const char index : indices)
    dims.push_back(static_cast<std::int64_t>(term.indices.find(index)));
  if (dims.empty()) return term;
  return {sum(term.tensor, dims), filter(term.indices, [&](char i) { return !has(indices, i); })};
}

// The term as a tensor with a dim for each of `indices`, of size 1 for those that it has not.
Tensor spread(const Term& term, const std::string& indices) {
  const Term own = ordered(term, filter(indices, [&](char i) { return has(term.indices, i); }));
  Shape shape;
  for (const char index : indices)
    shape.push_back(has(own.indices, index) ? size_of_index(own, index) : 1);
  return reshaped(own.tensor, shape);
}

// The term as matrices: the dims of `batch`, then those of `rows` as one, and of `columns` as one.
Tensor matrices(const Term& term, const std::string& batch, const std::string& rows,
                const std::string& columns) {
  const Term own = ordered(term, batch + rows + columns);
  Shape shape;
  for (const char index : batch) shape.push_back(size_of_index(own, index));
  for (const std::string& group : {rows, columns}) {
    shape.push_back(1);
    for (const char index : group) shape[shape.rank() - 1] *= size_of_index(own, index);
  }
  return reshaped(own.tensor, shape);
}

// Sums over `inner`, which both terms have with equal sizes; keeps everything else.
Term matrix_product(const Term& left, const Term& right, const std::string& inner) {
  const auto in_both = [&](char i) { return has(left.indices, i) && has(right.indices, i); };
  const std::string batch =
      filter(left.indices, [&](char i) { return in_both(i) && !has(inner, i); });
  const std::string rows = filter(left.indices, [&](char i) { return !in_both(i); });
  const std::string columns = filter(right.indices, [&](char i) { return !in_both(i); });
  const Tensor a = matrices(left, batch, rows, inner);
  const Tensor b = matrices(right, batch, inner, columns);
  const Tensor product = matmul(a, b);
  Shape shape = product.shape();
  shape.erase(shape.rank() - 1);
  shape.erase(shape.rank() - 1);
  for (const char index : rows) shape.push_back(size_of_index(left, index));
  for (const char index : columns) shape.push_back(size_of_index(right, index));
  return {reshaped(product, shape), batch + rows + columns};
}

// Keeps all indices.
Term elementwise_product(const Term& left, const Term& right) {
  const std::string indices =
      left.indices + filter(right.indices, [&](char i) { return !has(left.indices, i); });
  const Tensor a = spread(left, indices);
  const Tensor b = spread(right, indices);
  return {mul(a, b), indices};
}

// left times right, summed over the indices that are not in `keep`.
Term contracted(const Term& left, const Term& right, const std::string& keep) {
  const std::string inner = filter(left.indices, [&](char i) {
    return !has(keep, i) && has(right.indices, i) &&
           size_of_index(left, i) == size_of_index(right, i);
  });
  // What only one operand has is summed before the product, and so is an index that is 1 here and n
  // there: the 1 is a common factor.
  const auto is_summed_first = [&](char i) { return !has(keep, i) && !has(inner, i); };
  const Term a = summed(left, filter(left.indices, is_summed_first));
  const Term b = summed(right, filter(right.indices, is_summed_first));
  return inner.empty() ? elementwise_product(a, b) : matrix_product(a, b, inner);
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  const Equation parsed = parse(equation);
  const std::size_t count = parsed.operands.size();
  if (count != operands.size())
    reject(equation, "operands named: " + std::to_string(count) +
                         ", given: " + std::to_string(operands.size()));
  check_dtypes(operands);

  std::vector<std::int64_t> ranks(count);
  for (std::size_t i = 0; i < count; ++i) ranks[i] = ellipsis_rank(parsed, operands, i);
  const std::int64_t rank = *std::max_element(ranks.begin(), ranks.end());
  const std::string output = with_ellipsis(parsed.output, rank, rank);
  std::vector<Term> terms;
  for (std::size_t i = 0; i < count; ++i)
    terms.push_back({operands[i], with_ellipsis(parsed.operands[i], ranks[i], rank)});
  check_sizes(terms);
  for (std::size_t i = 0; i < count; ++i) terms[i] = with_diagonals(std::move(terms[i]), i);

  Term result = terms[0];
  for (std::size_t i = 1; i < count; ++i) {
    std::string keep = output;
    for (std::size_t later = i + 1; later < count; ++later) keep += terms[later].indices;
    result = contracted(result, terms[i], keep);
  }
  result = summed(result, filter(result.indices, [&](char i) { return !has(output, i); }));
  return ordered(result, output).tensor;
}

}  // namespace tapehead
