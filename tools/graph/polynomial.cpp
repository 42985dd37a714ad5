#include <tapehead/core/error.h>
#include <tapehead/graph/internal/fraction.h>
#include <tapehead/graph/polynomial.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace tapehead::graph {
namespace {

// ---- interpolation -----------------------------------------------------------------------------

// Turns values at the nodes into the coefficients of 1, x, x^2 and so on: divided differences, the
// coefficients of Newton's form, which is then multiplied out.
void solve(std::vector<Fraction>& line, const std::vector<std::int64_t>& nodes) {
  const std::size_t count = nodes.size();
  for (std::size_t order = 1; order < count; ++order)
    for (std::size_t i = count - 1; i >= order; --i)
      line[i] = (line[i] - line[i - 1]) * Fraction(1, Fraction::Wide{nodes[i]} - nodes[i - order]);
  for (std::size_t k = count - 1; k-- > 0;)
    for (std::size_t i = k; i + 1 < count; ++i)
      line[i] = line[i] - Fraction(nodes[k]) * line[i + 1];
}

bool has_repeats(std::vector<std::int64_t> nodes) {
  std::sort(nodes.begin(), nodes.end());
  return std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end();
}

// The same for every line of the grid along one axis, whose neighbours lie `stride` apart.
void solve_along(std::vector<Fraction>& grid, const Axis& axis, std::size_t stride) {
  const std::size_t count = axis.nodes.size();
  std::vector<Fraction> line(count);
  for (std::size_t first = 0; first < grid.size(); ++first) {
    if (first / stride % count != 0) continue;
    for (std::size_t i = 0; i < count; ++i) line[i] = grid[first + i * stride];
    solve(line, axis.nodes);
    for (std::size_t i = 0; i < count; ++i) grid[first + i * stride] = line[i];
  }
}

void check(std::span<const Axis> axes, std::size_t values) {
  std::size_t points = 1;
  for (const Axis& axis : axes) {
    points *= axis.nodes.size();
    if (axis.nodes.empty() || has_repeats(axis.nodes))
      throw ValueError("interpolate", "axis " + axis.name + " needs nodes, each of them once");
  }
  if (points != values)
    throw ValueError("interpolate", std::to_string(values) + " values for a grid of " +
                                        std::to_string(points) + " points");
}

// The coefficients that are not 0, with the exponents that their places on the grid stand for.
std::vector<Polynomial::Term> terms_of(const std::vector<Fraction>& grid,
                                       std::span<const Axis> axes) {
  std::vector<Polynomial::Term> terms;
  for (std::size_t place = 0; place < grid.size(); ++place) {
    if (grid[place].numerator() == 0) continue;
    Polynomial::Term term{narrowed(grid[place].numerator()), narrowed(grid[place].denominator()),
                          std::vector<int>(axes.size())};
    for (std::size_t a = axes.size(), rest = place; a-- > 0; rest /= axes[a].nodes.size())
      term.exponents[a] = static_cast<int>(rest % axes[a].nodes.size());
    terms.push_back(std::move(term));
  }
  return terms;
}

// ---- printing ----------------------------------------------------------------------------------

int total_degree(const Polynomial::Term& term) {
  return std::accumulate(term.exponents.begin(), term.exponents.end(), 0);
}

// Without the sign.
std::string to_string(const Polynomial::Term& term, const std::vector<std::string>& names) {
  std::string factors;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (term.exponents[i] == 0) continue;
    factors += "*" + names[i];
    if (term.exponents[i] > 1) factors += "^" + std::to_string(term.exponents[i]);
  }
  std::string number = std::to_string(term.numerator);
  if (number[0] == '-') number.erase(0, 1);
  if (term.denominator != 1) number += "/" + std::to_string(term.denominator);
  if (factors.empty()) return number;
  return number == "1" ? factors.substr(1) : number + factors;
}

}  // namespace

Polynomial::Polynomial(std::vector<std::string> names, std::vector<Term> terms)
    : names_(std::move(names)), terms_(std::move(terms)) {
  std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) {
    const int left = total_degree(a), right = total_degree(b);
    return left != right ? left > right : a.exponents > b.exponents;
  });
}

std::int64_t Polynomial::operator()(std::span<const std::int64_t> sizes) const {
  if (sizes.size() != names_.size())
    throw ValueError("closed form", std::to_string(sizes.size()) + " sizes for the " +
                                        std::to_string(names_.size()) + " of " + to_string(*this));
  try {
    Fraction value;
    for (const Term& term : terms_) {
      Fraction part(term.numerator, term.denominator);
      for (std::size_t i = 0; i < sizes.size(); ++i)
        for (int k = 0; k < term.exponents[i]; ++k) part = part * Fraction(sizes[i]);
      value = value + part;
    }
    if (value.denominator() == 1) return narrowed(value.numerator());
  } catch (const Fraction::Overflow&) {
    throw ValueError("closed form", to_string(*this) + ": the value does not fit in 64 bits");
  }
  throw ValueError("closed form", to_string(*this) + ": the value for these sizes is not whole");
}

std::string to_string(const Polynomial& polynomial) {
  std::string text;
  for (const Polynomial::Term& term : polynomial.terms()) {
    const bool negative = term.numerator < 0;
    text += text.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
    text += to_string(term, polynomial.names());
  }
  return text.empty() ? "0" : text;
}

std::optional<Polynomial> interpolate(std::span<const Axis> axes,
                                      std::span<const std::int64_t> values) {
  check(axes, values.size());
  std::vector<Fraction> grid(values.begin(), values.end());
  std::vector<std::string> names;
  for (const Axis& axis : axes) names.push_back(axis.name);
  try {
    std::size_t stride = 1;
    for (std::size_t a = axes.size(); a-- > 0; stride *= axes[a].nodes.size())
      solve_along(grid, axes[a], stride);
    return Polynomial(std::move(names), terms_of(grid, axes));
  } catch (const Fraction::Overflow&) {
    return std::nullopt;
  }
}

}  // namespace tapehead::graph
