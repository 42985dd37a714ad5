#include <tapehead/core/dry_run.h>
#include <tapehead/core/error.h>
#include <tapehead/nn/mask_rules.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/views.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>

namespace tapehead::nn::mask_rules {

namespace {

std::int64_t queries(const Shape& scores) { return scores[scores.rank() - 2]; }
std::int64_t keys(const Shape& scores) { return scores.back(); }

void check_fits(const char* operation, const Tensor& tensor, const Shape& scores) {
  if (!broadcasts_to(tensor.shape(), scores))
    throw ShapeError(operation, "mask " + to_string(tensor.shape()) +
                                    " does not broadcast to scores " + to_string(scores));
}

std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  using Limits = std::numeric_limits<std::int64_t>;
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? Limits::max() : Limits::min();
}

// (start), (start + 1), ... for each query: (L, 1), to be compared with the numbers of keys. From
// the number of keys on, and below minus the number of queries, all starts compare alike.
Tensor for_each_query(std::int64_t start, const Shape& scores) {
  start = std::clamp(start, -queries(scores), keys(scores));
  const Tensor numbers = arange(static_cast<double>(start),
                                static_cast<double>(start + queries(scores)), 1, DType::i64);
  return unsqueeze(numbers, 1);
}

struct Causal final : Mask::Rule {
  Placement placement;

  std::int64_t first(const Shape& scores) const { return placement.first("Mask::causal", scores); }

  Tensor hidden(const Shape& scores) const override {
    Tensor later = gt(arange(keys(scores)), for_each_query(first(scores), scores));
    if (first(scores) >= 0) later.set_name(causal_mask_name);
    return later;
  }

  // A negative offset (the first queries see nothing) is left to the tensor.
  Mask::Parts parts(const Shape& scores) const override {
    const std::int64_t offset = first(scores);
    return offset >= 0 ? Mask::Parts{offset, {}} : Mask::Parts{std::nullopt, hidden(scores)};
  }
};

struct Window final : Mask::Rule {
  std::int64_t width = 0;
  Placement placement;

  Tensor hidden(const Shape& scores) const override {
    const std::int64_t first = placement.first("Mask::window", scores);
    const Tensor key = arange(keys(scores));
    const Tensor before = le(key, for_each_query(saturated_sum(first, -width), scores));
    const Tensor after = ge(key, for_each_query(saturated_sum(first, width), scores));
    return logical_or(before, after);
  }
};

struct Prefix final : Mask::Rule {
  std::int64_t length = 0;

  Tensor hidden(const Shape& scores) const override {
    return ge(arange(keys(scores)), static_cast<double>(length));
  }
};

struct HiddenKeys final : Mask::Rule {
  Tensor tensor;

  Tensor hidden(const Shape& scores) const override {
    if (tensor.rank() == 2 && scores.rank() < 3)
      throw ShapeError("Mask::padding", "padding " + to_string(tensor.shape()) +
                                            " has a batch, scores " + to_string(scores) +
                                            " have none");
    Tensor spread = tensor;
    if (tensor.rank() == 2) {
      Shape shape(scores.rank(), 1);
      shape[0] = tensor.shape()[0];
      shape[scores.rank() - 1] = tensor.shape()[1];
      spread = reshape(tensor, shape);
    }
    check_fits("Mask::padding", spread, scores);
    return spread;
  }
};

struct Lengths final : Mask::Rule {
  std::vector<std::int64_t> lengths;

  Tensor hidden(const Shape& scores) const override {
    for (const std::int64_t length : lengths)
      if (length > keys(scores))
        throw ShapeError("Mask::padding", "length " + std::to_string(length) +
                                              " is more than the " + std::to_string(keys(scores)) +
                                              " keys");
    const auto sequences = static_cast<std::int64_t>(lengths.size());
    if (scores.rank() > 2 && sequences != scores[0])
      throw ShapeError("Mask::padding", std::to_string(sequences) + " lengths for the " +
                                            std::to_string(scores[0]) + " sequences of scores " +
                                            to_string(scores));
    const Tensor ends = from_vector(lengths, {sequences, 1});
    HiddenKeys padding;
    padding.tensor = ge(arange(keys(scores)), ends);
    return padding.hidden(scores);
  }
};

struct Documents final : Mask::Rule {
  Tensor ids;

  Tensor hidden(const Shape& scores) const override {
    const std::int64_t time = ids.size(-1);
    const bool has_batch = ids.rank() == 2;
    if (queries(scores) != time || keys(scores) != time || (has_batch && scores.rank() < 3))
      throw ShapeError("Mask::documents",
                       "ids " + to_string(ids.shape()) + " do not fit scores " + to_string(scores));
    Shape column(has_batch ? scores.rank() : 2, 1);
    if (has_batch) column[0] = ids.size(0);
    Shape row = column;
    column[column.rank() - 2] = time;
    row[row.rank() - 1] = time;
    const Tensor of_query = reshape(ids, column);
    const Tensor of_key = reshape(ids, row);
    const Tensor blocks = ne(of_query, of_key);
    check_fits("Mask::documents", blocks, scores);
    return blocks;
  }
};

struct Hidden final : Mask::Rule {
  Tensor tensor;

  Tensor hidden(const Shape& scores) const override {
    if (tensor.rank() > 2 && tensor.rank() != scores.rank())
      throw ShapeError("Mask", "mask " + to_string(tensor.shape()) + " and scores " +
                                   to_string(scores) +
                                   ": a mask of more than two dims must have the scores' rank; "
                                   "unsqueeze() the dims that it leaves out");
    check_fits("Mask", tensor, scores);
    return tensor;
  }
};

struct Combined final : Mask::Rule {
  Mask a, b;
  bool both = false;

  Tensor hidden(const Shape& scores) const override {
    const Tensor hidden_a = a.hidden(scores);
    const Tensor hidden_b = b.hidden(scores);
    return both ? logical_or(hidden_a, hidden_b) : logical_and(hidden_a, hidden_b);
  }

  // Of two triangles the lower one decides under &.
  Mask::Parts parts(const Shape& scores) const override {
    if (!both) return {std::nullopt, hidden(scores)};
    const Mask::Parts of_a = a.parts(scores), of_b = b.parts(scores);
    Mask::Parts all{of_a.causal_offset ? of_a.causal_offset : of_b.causal_offset,
                    of_a.hidden.defined() ? of_a.hidden : of_b.hidden};
    if (of_a.causal_offset && of_b.causal_offset)
      all.causal_offset = std::min(*of_a.causal_offset, *of_b.causal_offset);
    if (of_a.hidden.defined() && of_b.hidden.defined())
      all.hidden = logical_or(of_a.hidden, of_b.hidden);
    return all;
  }
};

// What was made once. What a dry run made has no values, and is made again for a real run.
template <class T>
struct Kept {
  std::optional<T> value;
  bool is_dry = false;

  template <class Make>
  const T& get(Make make) {
    if (!value || (is_dry && !DryRun::active())) {
      value = make();
      is_dry = DryRun::active();
    }
    return *value;
  }
};

struct Prepared final : Mask::Rule {
  Mask mask;
  Shape shape;
  mutable std::mutex mutex;            // of what follows
  mutable Kept<Tensor> tensor;         // mask.hidden(shape), when somebody asked
  mutable Kept<Mask::Parts> in_parts;  // mask.parts(shape), likewise

  Tensor hidden(const Shape& scores) const override {
    if (scores != shape) return mask.hidden(scores);
    const std::lock_guard lock(mutex);
    return kept_tensor();
  }
  // The parts of a triangle are smaller than the tensor.
  Mask::Parts parts(const Shape& scores) const override {
    if (scores != shape) return mask.parts(scores);
    const std::lock_guard lock(mutex);
    return in_parts.get([this] {
      Mask::Parts made = mask.parts(shape);
      if (!made.causal_offset) made.hidden = kept_tensor();
      return made;
    });
  }
  Tensor kept_tensor() const {
    return tensor.get([this] { return mask.hidden(shape); });
  }
};

}  // namespace

std::int64_t Placement::first(const char* operation, const Shape& scores) const {
  if (offset) return *offset;
  if (align == Align::top_left) return 0;
  const std::int64_t surplus = keys(scores) - queries(scores);
  if (!align && surplus != 0)
    throw ShapeError(operation,
                     std::to_string(queries(scores)) + " queries and " +
                         std::to_string(keys(scores)) +
                         " keys differ, so query 0 must be placed: Align::bottom_right (the last "
                         "query stands at the last key, as decoding needs), Align::top_left (as "
                         "PyTorch's is_causal), or the offset of the first query");
  return surplus;
}

RulePtr causal(Placement placement) {
  auto rule = std::make_shared<Causal>();
  rule->placement = placement;
  return rule;
}

RulePtr window(std::int64_t width, Placement placement) {
  auto rule = std::make_shared<Window>();
  rule->width = width;
  rule->placement = placement;
  return rule;
}

RulePtr prefix(std::int64_t length) {
  auto rule = std::make_shared<Prefix>();
  rule->length = length;
  return rule;
}

RulePtr hidden_keys(Tensor tensor) {
  auto rule = std::make_shared<HiddenKeys>();
  rule->tensor = std::move(tensor);
  return rule;
}

RulePtr lengths(std::vector<std::int64_t> lengths) {
  auto rule = std::make_shared<Lengths>();
  rule->lengths = std::move(lengths);
  return rule;
}

RulePtr documents(Tensor ids) {
  auto rule = std::make_shared<Documents>();
  rule->ids = std::move(ids);
  return rule;
}

RulePtr hidden(Tensor tensor) {
  auto rule = std::make_shared<Hidden>();
  // A triangle that was taken as a tensor is one to the composed path alone.
  rule->tensor = tensor.name() == causal_mask_name ? tensor.detach() : std::move(tensor);
  return rule;
}

RulePtr combined(Mask a, Mask b, bool both) {
  auto rule = std::make_shared<Combined>();
  rule->a = std::move(a);
  rule->b = std::move(b);
  rule->both = both;
  return rule;
}

RulePtr prepared(Mask mask, const Shape& scores) {
  auto rule = std::make_shared<Prepared>();
  rule->mask = std::move(mask);
  rule->shape = scores;
  return rule;
}

}  // namespace tapehead::nn::mask_rules
