#include <tapehead/core/count.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/kernels/fused_attention.h>
#include <tapehead/ops/kernels/random.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace tapehead {
namespace {

constexpr const char* op = "fused_attention";

// The numbers of one call, as the node keeps them.
struct Terms {
  double scale = 1;
  std::optional<std::int64_t> causal_offset;
  double dropout = 0;
  RandomState random;
  bool hides = false;  // keys, by a tensor
};

// What one kernel call sees: its views of hidden and bias live as long as it does.
struct KernelTerms {
  KernelTerms(const Terms& terms, const Tensor& hidden, const Tensor& bias, const Shape& scores) {
    all.scale = terms.scale;
    all.causal_offset = terms.causal_offset;
    if (terms.dropout > 0)
      all.dropout = {terms.random, kernels::last_dropped_word(terms.dropout),
                     1 / (1 - terms.dropout)};
    all.hidden = expanded(hidden, scores, hidden_view);
    all.bias = expanded(bias, scores, bias_view);
  }
  KernelTerms(const KernelTerms&) = delete;
  KernelTerms& operator=(const KernelTerms&) = delete;

  static const View* expanded(const Tensor& x, const Shape& to, View& view) {
    if (!x.defined()) return nullptr;
    view = x.view();
    view.strides = expanded_strides(x.shape(), x.strides(), to);
    view.shape = to;
    return &view;
  }

  kernels::AttentionTerms all;
  View hidden_view, bias_view;
};

Shape scores_shape(const Tensor& q, const Tensor& k) {
  return {q.size(0), q.size(1), q.size(2), k.size(2)};
}

// A (B, H, L, F) result that lies in memory as (B, L, H, F), so that merging the heads of y, and
// undoing the split of q, k and v in their gradients, is free.
Tensor empty_heads(const Shape& shape, DType dtype) {
  const Tensor rows = empty(op, {shape[0], shape[2], shape[1], shape[3]}, dtype);
  const Strides& s = rows.strides();
  return alias(rows, shape, {s[0], s[2], s[1], s[3]}, 0);
}

struct FusedAttentionNode final : Node {
  FusedAttentionNode() : Node(op) {}
  Saved q{*this, "q", {0, 1, 2, 3}, "A = softmax(scale * q k^T + bias), dk = scale * dS^T q"};
  Saved k{*this, "k", {0, 1, 2, 3}, "A = softmax(scale * q k^T + bias), dq = scale * dS k"};
  Saved v{*this, "v", {0, 1, 2, 3}, "dS = A * (g v^T - D)"};
  Saved y{*this, "y", {0, 1, 2, 3}, "D = sum(g * y)"};
  static constexpr const char* weights_again = "A = exp(scale * q k^T + bias - row_max) / row_sum";
  Saved row_max{*this, "row_max", {0, 1, 2, 3}, weights_again, Saved::Exact{}};
  Saved row_sum{*this, "row_sum", {0, 1, 2, 3}, weights_again, Saved::Exact{}};
  Saved hidden{*this, "hidden", {0, 1, 2, 3}, "A = 0 where hidden"};
  Saved bias{*this, "bias", {0, 1, 2, 3}, "A = softmax(scale * q k^T + bias)"};
  Terms terms;

  Grads backward(Tensor g, const Wanted& wanted) override {
    return Tape::recording() ? composed(g, wanted) : fused(contiguous_rows(g), wanted);
  }

  std::vector<Graph::Attribute> attributes() const override {
    std::vector<Graph::Attribute> list{{"scale", terms.scale}};
    if (terms.causal_offset) list.push_back({"causal_offset", *terms.causal_offset});
    if (terms.dropout > 0) list.push_back({"dropout", terms.dropout});
    if (terms.hides) list.push_back({"hidden", true});
    return list;
  }

  // Two products over all pairs of positions, the hidden ones of a causal triangle included.
  std::int64_t flops() const override {
    const Shape q_shape = input_shape(0), v_shape = input_shape(2);
    return count_product(2, q_shape[0], q_shape[1], q_shape[2], v_shape[2],
                         count_sum(q_shape[3], v_shape[3]));
  }

  void save_all(const Tensor& q_, const Tensor& k_, const Tensor& v_, const Tensor& y_,
                const Tensor& row_max_, const Tensor& row_sum_, const Tensor& hidden_,
                const Tensor& bias_) {
    q.save(q_);
    k.save(k_);
    v.save(v_);
    y.save(y_);
    row_max.save(row_max_);
    row_sum.save(row_sum_);
    if (hidden_.defined()) hidden.save(hidden_);
    if (bias_.defined()) bias.save(bias_);
  }

  static Tensor contiguous_rows(const Tensor& x) { return kernels_take(x) ? x : contiguous(x); }
  static bool kernels_take(const Tensor& x) {
    return (x.size(3) <= 1 || x.strides()[3] == 1) &&
           (x.size(2) <= 1 || x.strides()[2] >= x.size(3));
  }

 private:
  Grads fused(const Tensor& g, const Wanted& wanted) const {
    const Tensor &q_ = q.get(), &k_ = k.get(), &v_ = v.get();
    const Tensor dq = empty_heads(q_.shape(), q_.dtype()), dk = empty_heads(k_.shape(), k_.dtype()),
                 dv = empty_heads(v_.shape(), v_.dtype());
    const Tensor hidden_ = hidden.get_or_none(), bias_ = bias.get_or_none();
    const Shape scores = scores_shape(q_, k_);
    const bool wants_bias = bias_.defined() && wanted[3];
    const Tensor dscores = wants_bias ? empty(op, scores, q_.dtype()) : Tensor();
    const Tensor &y_ = y.get(), &row_max_ = row_max.get(), &row_sum_ = row_sum.get();
    launch([&] {
      const KernelTerms kernel_terms(terms, hidden_, bias_, scores);
      const View dscores_view = wants_bias ? dscores.view() : View();
      kernels::attention_backward(q_.view(), k_.view(), v_.view(), kernel_terms.all, y_.view(),
                                  row_max_.view(), row_sum_.view(), g.view(), dq.view(), dk.view(),
                                  dv.view(), wants_bias ? &dscores_view : nullptr);
    });
    if (!bias_.defined()) return {dq, dk, dv};
    return {dq, dk, dv, wants_bias ? sum_to(dscores, bias_.shape()) : Tensor()};
  }

  // The same gradients as operations on (B, K, G, L, S) weights, G query heads to each key head.
  Grads composed(const Tensor& g, const Wanted& wanted) const {
    const Tensor &q_ = q.get(), &k_ = k.get(), &v_ = v.get();
    const std::int64_t key_heads = k_.size(1),
                       group = q_.size(1) / std::max<std::int64_t>(key_heads, 1);
    const auto grouped = [&](const Tensor& x) {
      return reshape(x, {x.size(0), key_heads, group, x.size(2), x.size(3)});
    };
    const auto flat = [](const Tensor& x) {
      return reshape(x, {x.size(0), x.size(1) * x.size(2), x.size(3), x.size(4)});
    };
    Tensor q5 = grouped(q_), g5 = grouped(g), k5 = unsqueeze(k_, 2), v5 = unsqueeze(v_, 2);
    const Tensor unseen = hidden_scores(scores_shape(q_, k_));
    if (unseen.defined()) {
      // What no query sees, and what sees no key, may be NaN, which a weight of 0 would not keep
      // out of the products.
      const Tensor nobody = hidden_from_all(unseen, key_heads, group);
      k5 = masked_fill(std::move(k5), nobody, 0);
      v5 = masked_fill(std::move(v5), nobody, 0);
      const Tensor blind = sees_nothing(unseen, key_heads, group);
      q5 = masked_fill(std::move(q5), blind, 0);
      g5 = masked_fill(std::move(g5), blind, 0);
    }
    const Tensor a =
        grouped(weights(flat(matmul(q5, transpose(k5, -2, -1), {.scale = terms.scale})), unseen));
    const Tensor dropped = grouped(drop(flat(a)));
    const Tensor dv = matmul(transpose(dropped, -2, -1), g5);
    const Tensor da = grouped(drop(flat(matmul(g5, transpose(v5, -2, -1)))));
    const Tensor d = sum(mul(da, a), {-1}, true);
    const Tensor ds = mul(a, sub(da, d));
    const Tensor dq = matmul(ds, k5, {.scale = terms.scale});
    const Tensor dk = matmul(transpose(ds, -2, -1), q5, {.scale = terms.scale});
    const Tensor dq4 = flat(dq), dk4 = sum(dk, {2}), dv4 = sum(dv, {2});
    if (!bias.kept()) return {dq4, dk4, dv4};
    return {dq4, dk4, dv4, wanted[3] ? sum_to(flat(ds), bias.get().shape()) : Tensor()};
  }

  static constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

  // The weights from the scaled scores, both (B, H, L, S).
  Tensor weights(Tensor scores, const Tensor& unseen) const {
    if (bias.kept()) scores = add(std::move(scores), bias.get());
    if (unseen.defined()) scores = masked_fill(std::move(scores), unseen, minus_infinity);
    return softmax(std::move(scores), -1, {.empty_row = EmptyRow::zero});
  }

  // Which keys are hidden from which queries, for whatever reason: broadcasts to the scores.
  // Undefined when all see all.
  Tensor hidden_scores(const Shape& scores) const {
    Tensor mask = hidden.get_or_none();
    const auto join = [&](const Tensor& more) {
      mask = mask.defined() ? logical_or(mask, more) : more;
    };
    if (terms.causal_offset) {
      const Tensor later = causal_hidden(scores[2], scores[3], *terms.causal_offset);
      join(unsqueeze(unsqueeze(later, 0), 0));
    }
    if (bias.kept()) join(eq(bias.get().detach(), minus_infinity));
    return mask;
  }

  // (B, K, 1, S, 1), or 1 in a dim in which all are alike: the keys that no query of the group
  // sees.
  static Tensor hidden_from_all(const Tensor& unseen, std::int64_t key_heads, std::int64_t group) {
    const Tensor of_heads = all(unseen, {2}, true);
    const std::int64_t batch = of_heads.size(0), keys = of_heads.size(3);
    if (of_heads.size(1) == 1) return reshape(of_heads, {batch, 1, 1, keys, 1});
    const Tensor of_groups = all(reshape(of_heads, {batch, key_heads, group, keys}), {2}, true);
    return unsqueeze(of_groups, 4);
  }

  // (B, K, G, L, 1), or 1 in a dim in which all are alike: the queries that see no key.
  static Tensor sees_nothing(const Tensor& unseen, std::int64_t key_heads, std::int64_t group) {
    const Tensor blind = unsqueeze(all(unseen, {3}, true), 2);
    if (unseen.size(1) == 1) return blind;
    return reshape(blind, {blind.size(0), key_heads, group, blind.size(3), 1});
  }

  static Tensor causal_hidden(std::int64_t queries, std::int64_t keys, std::int64_t offset) {
    const Tensor mask = empty(op, {queries, keys}, DType::boolean, Category::constant);
    launch([&] {
      bool* element = mask.view().as<bool>();
      for (std::int64_t i = 0; i < queries; ++i)
        for (std::int64_t j = 0; j < keys; ++j) *element++ = j > i + offset;
    });
    return mask;
  }

  Tensor drop(Tensor x) const {
    if (terms.dropout == 0) return x;
    return replay_dropout(std::move(x), terms.dropout, terms.random);
  }
};

// ---- checks -------------------------------------------------------------------------------------

std::string operands(const Tensor& q, const Tensor& k, const Tensor& v) {
  return "q " + describe(q) + ", k " + describe(k) + ", v " + describe(v);
}

void check_ranks(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const auto& [name, x] : {std::pair("q", &q), std::pair("k", &k), std::pair("v", &v)})
    check_floating(op, name, *x);
  check_same_dtype(op, q, k, "q", "k");
  check_same_dtype(op, q, v, "q", "v");
  if (q.rank() < 2 || q.rank() > 4 || q.rank() != k.rank() || q.rank() != v.rank())
    throw ShapeError(op, operands(q, k, v) + ": one rank from 2 to 4 is wanted");
}

void check_fit(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto fail = [&](const char* rule) {
    throw ShapeError(op, operands(q, k, v) + ": " + rule);
  };
  if (q.rank() == 4 && (q.size(0) != k.size(0) || q.size(0) != v.size(0)))
    fail("the batches must be equal");
  if (q.size(-1) != k.size(-1)) fail("q and k must have as many features");
  if (k.size(-2) != v.size(-2)) fail("k and v must have as many keys");
  if (q.rank() < 3) return;
  if (k.size(-3) != v.size(-3)) fail("k and v must have as many heads");
  if (k.size(-3) == 0 ? q.size(-3) != 0 : q.size(-3) % k.size(-3) != 0)
    fail("the heads of q must be a multiple of those of k");
}

void check_options(const FusedAttentionOptions& options, const Tensor& q) {
  if (options.causal_offset && *options.causal_offset < 0)
    throw ValueError(op,
                     "causal_offset " + std::to_string(*options.causal_offset) + " is negative");
  if (!(options.dropout >= 0 && options.dropout <= 1))
    throw ValueError(op, "dropout " + format_number(options.dropout) + " is outside [0, 1]");
  if (options.hidden.defined()) check_dtype(op, "hidden", options.hidden, DType::boolean);
  if (options.bias.defined()) check_same_dtype(op, options.bias, q, "bias", "q");
}

// x with dims of size 1 in front, so that it has four.
Tensor four_dims(Tensor x) {
  while (x.rank() < 4) x = unsqueeze(x, 0);
  return x;
}

Tensor four_dims_of_scores(const char* name, const Tensor& x, const Shape& scores) {
  if (!x.defined()) return x;
  if (x.rank() > 4 || !broadcasts_to(x.shape(), scores))
    throw ShapeError(op, std::string(name) + " " + describe(x) +
                             " does not broadcast to the scores " + to_string(scores));
  return four_dims(x);
}

Terms draw_terms(const FusedAttentionOptions& options, const Shape& scores) {
  Terms terms{options.scale, options.causal_offset, options.dropout, {}};
  // From as many places as there are keys on, every query sees all: sums with it cannot overflow.
  if (terms.causal_offset) terms.causal_offset = std::min(*terms.causal_offset, scores.back());
  if (options.dropout > 0) {
    Generator& generator = options.generator ? *options.generator : default_generator();
    terms.random = generator.take(static_cast<std::uint64_t>(numel(scores)));
  }
  return terms;
}

// On four dims, with rows that the kernel takes.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& hidden,
              const Tensor& bias, const Terms& terms) {
  const Shape scores = scores_shape(q, k);
  Tensor y = empty_heads({q.size(0), q.size(1), q.size(2), v.size(3)}, q.dtype());
  const Shape rows{q.size(0), q.size(1), q.size(2)};
  const Tensor row_max = empty(op, rows, q.dtype()), row_sum = empty(op, rows, q.dtype());
  launch([&] {
    const KernelTerms kernel_terms(terms, hidden, bias, scores);
    kernels::attention_forward(q.view(), k.view(), v.view(), kernel_terms.all, y.view(),
                               row_max.view(), row_sum.view());
  });
  std::vector<const Tensor*> inputs{&q, &k, &v};
  if (bias.defined()) inputs.push_back(&bias);
  return record<FusedAttentionNode>(y, inputs, [&](FusedAttentionNode& node) {
    node.terms = terms;
    node.terms.hides = hidden.defined();
    node.save_all(q, k, v, y, row_max, row_sum, hidden, bias);
  });
}

}  // namespace

Tensor fused_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                       const FusedAttentionOptions& options) {
  check_ranks(q, k, v);
  check_fit(q, k, v);
  check_options(options, q);
  // Everything is checked before the first view is recorded.
  const Shape scores{q.rank() == 4 ? q.size(0) : 1, q.rank() >= 3 ? q.size(-3) : 1, q.size(-2),
                     k.size(-2)};
  if (options.dropout > 0) check_shape(op, scores, size_of(q.dtype()));  // each entry has its draw
  const Tensor hidden = four_dims_of_scores("hidden", options.hidden, scores);
  const Tensor bias = four_dims_of_scores("bias", options.bias, scores);
  const Tensor q4 = FusedAttentionNode::contiguous_rows(four_dims(q));
  const Tensor k4 = FusedAttentionNode::contiguous_rows(four_dims(k));
  const Tensor v4 = FusedAttentionNode::contiguous_rows(four_dims(v));
  const Tensor y = attend(q4, k4, v4, hidden, bias, draw_terms(options, scores));
  Shape shape = q.shape();
  shape[shape.rank() - 1] = v.size(-1);
  return q.rank() == 4 ? y : reshape(y, shape);
}

}  // namespace tapehead
