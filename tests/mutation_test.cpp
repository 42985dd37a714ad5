// Would the gradient test notice? Every rule that a row of the table runs is run wrongly on
// purpose, in each way that makes sense for it, and the row's gradient test must fail each time.
#include "support/operation_run.h"

#include <tapehead/core/arithmetic.h>
#include <tapehead/core/gradcheck.h>
#include <tapehead/core/testing.h>

#include <algorithm>
#include <map>
#include <set>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

enum class Fault {
  negated,
  doubled,
  zero,
  transposed,   // of a square gradient
  not_reduced,  // of a broadcast input: one slice of what should be summed
  stale_saved,  // another tensor of the same shape where the saved one was
};

constexpr std::string_view to_string(Fault fault) {
  constexpr std::string_view names[]{"negated",    "doubled",     "zero",
                                     "transposed", "not reduced", "stale saved"};
  return names[static_cast<int>(fault)];
}

// One rule of a walk made wrong in one place: the operation, how many rules of the same name the
// walk ran before it, and which gradient or saved slot.
struct Mutation {
  std::string operation;
  std::size_t occurrence = 0, place = 0;
  Fault fault = Fault::negated;
  auto operator<=>(const Mutation&) const = default;
};

bool is_square(const Shape& shape) {
  const int rank = shape.rank();
  return rank >= 2 && shape[rank - 1] == shape[rank - 2] && shape[rank - 1] > 1;
}

// The dims of `g` that a gradient of shape `to` sums over, or none when it is no broadcast.
std::vector<int> broadcast_dims(const Shape& g, const Shape& to) {
  std::vector<int> dims;
  const int more = g.rank() - to.rank();
  for (int i = 0; more >= 0 && i < g.rank(); ++i) {
    const std::int64_t size = i < more ? 1 : to[i - more];
    if (size != g[i] && size != 1) return {};
    if (size == 1 && g[i] > 1) dims.push_back(i);
  }
  return dims;
}

// g with zeros outside position 0 of these dims: a rule is linear in g, so its result is what it
// would be without the sum over them.
Tensor first_slice(const Tensor& g, const std::vector<int>& dims) {
  Tensor kept = filled("mutation", g.shape(), g.dtype(), 0);
  Shape shape = g.shape();
  for (const int dim : dims) shape[dim] = 1;
  copy_values(alias(kept, shape, kept.strides(), 0).view(),
              alias(g, shape, g.strides(), g.offset()).view());
  return kept;
}

Tensor other_than(const Tensor& saved) {
  std::vector<double> values = saved.to_vector();
  if (is_floating(saved.dtype())) values.assign(values.size(), 1.25);
  else if (saved.dtype() == DType::boolean)
    for (double& v : values) v = 1 - v;
  else std::fill(values.begin(), values.end(), values.empty() || values[0] != 0 ? 0 : 1);
  return from_vector(values, saved.shape(), saved.dtype());
}

bool same_values(const Tensor& a, const Tensor& b) { return a.to_vector() == b.to_vector(); }

// Notes every mutation that applies to the rules of a walk, and carries out one of them.
class Mutator final : public testing::RuleHook {
 public:
  explicit Mutator(std::set<Mutation>& possible) : possible_(possible) {}
  explicit Mutator(std::set<Mutation>& possible, const Mutation& chosen)
      : possible_(possible), chosen_(&chosen) {}

  /// Whether the chosen mutation changed any number: a rule that gives the same is not wrong.
  bool made_a_difference() const { return made_a_difference_; }

  Grads run(Node& node, Tensor g, const Wanted& wanted) override {
    const std::size_t occurrence = rules_[node.operation()]++;
    const auto is_chosen = [&](std::size_t place, Fault fault) {
      Mutation here{node.operation(), occurrence, place, fault};
      const bool chosen = chosen_ && here == *chosen_;
      possible_.insert(std::move(here));
      return chosen;
    };
    Grads gradients = node.backward(copied("mutation", g), wanted);
    const std::vector<Saved*> kept = kept_by(node);
    for (std::size_t slot = 0; slot < kept.size(); ++slot) {
      if (!is_chosen(slot, Fault::stale_saved)) continue;
      replace(*kept[slot], other_than(kept[slot]->get()));
      Grads wrong = node.backward(copied("mutation", g), wanted);
      for (std::size_t k = 0; k < node.inputs().size(); ++k)
        if (wanted[k]) substitute(gradients[k], wrong[k]);
    }
    for (std::size_t k = 0; k < node.inputs().size(); ++k) {
      if (!wanted[k]) continue;
      const std::vector<int> dims = broadcast_dims(g.shape(), node.input_shape(k));
      if (!dims.empty() && is_chosen(k, Fault::not_reduced))
        substitute(gradients[k], node.backward(first_slice(g, dims), wanted)[k]);
      spoil(gradients[k], [&](Fault fault) { return is_chosen(k, fault); });
    }
    return gradients;
  }

 private:
  void substitute(Tensor& right, const Tensor& wrong) {
    made_a_difference_ = made_a_difference_ || !same_values(right, wrong);
    right = wrong;
  }

  template <class IsChosen>
  void spoil(Tensor& gradient, const IsChosen& is_chosen) {
    const auto scaled = [&](double factor) {
      Tensor wrong = copied("mutation", gradient);
      scale_in_place(wrong.view(), factor);
      return wrong;
    };
    if (is_chosen(Fault::negated)) substitute(gradient, scaled(-1));
    if (is_chosen(Fault::doubled)) substitute(gradient, scaled(2));
    if (is_chosen(Fault::zero)) substitute(gradient, scaled(0));
    if (is_square(gradient.shape()) && is_chosen(Fault::transposed)) {
      Strides strides = gradient.strides();
      std::swap(strides[strides.rank() - 1], strides[strides.rank() - 2]);
      substitute(gradient, alias(gradient, gradient.shape(), strides, gradient.offset()));
    }
  }

  std::set<Mutation>& possible_;
  const Mutation* chosen_ = nullptr;
  bool made_a_difference_ = false;
  std::map<std::string, std::size_t> rules_;
};

// The row's gradient test in one variation, in its weakest form: along one random direction.
bool passes(const OperationCase& row, const Variation& variation) {
  const std::vector<Tensor> inputs = make_inputs(row, variation);
  const GradcheckOptions options{.fast = true, .allow_unused = true, .diagnose = false};
  return gradcheck(as_function(row, inputs), differentiable(row, inputs), options).ok;
}

// Which mutations apply in each variation of the row.
std::vector<std::set<Mutation>> mutations_of(const OperationCase& row,
                                             const std::vector<Variation>& variations) {
  std::vector<std::set<Mutation>> possible(variations.size());
  for (std::size_t v = 0; v < variations.size(); ++v) {
    Mutator census(possible[v]);
    CHECK_MESSAGE(passes(row, variations[v]), describe(row, variations[v]));
  }
  return possible;
}

}  // namespace

namespace {

enum class Verdict { noticed, unnoticed, no_difference };

// Runs the row's gradient test with the wrong rule, in every variation where it applies.
Verdict try_out(const Mutation& mutation, const OperationCase& row,
                const std::vector<Variation>& variations,
                const std::vector<std::set<Mutation>>& possible) {
  bool made_a_difference = false;
  for (std::size_t v = 0; v < variations.size(); ++v) {
    if (!possible[v].contains(mutation)) continue;
    std::set<Mutation> ignored;
    const Mutator mutator(ignored, mutation);
    if (!passes(row, variations[v])) return Verdict::noticed;
    made_a_difference = made_a_difference || mutator.made_a_difference();
  }
  return made_a_difference ? Verdict::unnoticed : Verdict::no_difference;
}

}  // namespace

TEST_CASE("the gradient test of every operation finds every wrong variant of every rule") {
  std::size_t wrong = 0, found = 0;
  for (const OperationCase& row : operation_cases()) {
    const std::vector<Variation> variations = shape_variations(row);
    const std::vector<std::set<Mutation>> possible = mutations_of(row, variations);
    std::set<Mutation> all;
    for (const std::set<Mutation>& some : possible) all.insert(some.begin(), some.end());
    for (const Mutation& mutation : all) {
      const Verdict verdict = try_out(mutation, row, variations, possible);
      INFO(row.name(), ": the rule of ", mutation.operation, " number ", mutation.occurrence, ", ",
           to_string(mutation.fault), " at ", mutation.place);
      CHECK(verdict != Verdict::unnoticed);
      if (mutation.fault == Fault::stale_saved)
        CHECK_MESSAGE(verdict != Verdict::no_difference, "saved, but no gradient reads it");
      wrong += verdict != Verdict::no_difference;
      found += verdict == Verdict::noticed;
    }
  }
  CHECK(wrong > 1000);
  MESSAGE("mutation score: ", found, " of ", wrong, " wrong rules found");
}
