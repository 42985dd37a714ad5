// Mask: which keys each query may attend to.
//
// A type of its own and not a bool tensor, because the field reads bool tensors in two opposite
// ways, and reading one the wrong way raises no error. Here the direction is in the name: keep(t)
// and hide(t). Masks are combined with & (both must let a key be seen) and | (either is enough).
//
// A mask is a rule and holds no tensor of scores' size; hidden() makes one, as small as
// broadcasting allows. Scores have the shape (..., L, S): L queries, S keys, any dims in front, the
// first of which is the batch. A Mask is an immutable value; copies share its rule, on any thread.
//
// A query that may see no key at all is legal: its attention output is 0.
#pragma once

#include <tapehead/core/tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tapehead::nn {

/// How a triangle lies on L queries and S keys when the two numbers differ.
enum class Align {
  top_left,      ///< query i sees keys 0..i, as PyTorch's is_causal
  bottom_right,  ///< the last query sees all keys: the queries are the last of the sequence
};

/// The name, in graphs, of the tensor that Mask::causal() makes for the composed path. The fused
/// one needs none, unless some query stands before the first key.
inline constexpr const char* causal_mask_name = "causal_mask";

/// Which keys each query may attend to: a rule that makes a tensor when scores ask for one.
class Mask {
 public:
  /// Hides nothing.
  Mask() = default;

  /// Query i sees keys 0..i; as many queries as keys, else ShapeError when it is used.
  static Mask causal();
  /// The same for any numbers of queries and keys.
  static Mask causal(Align align);
  /// Query i sees keys 0..i + offset: the queries stand `offset` places into the sequence.
  /// ValueError when negative.
  static Mask causal(std::int64_t offset);

  /// @{
  /// Query i sees keys less than `width` places away, before and behind; under a causal mask (&)
  /// the last `width` keys, its own among them. As many queries as keys, else ShapeError in use, or
  /// placed as causal(). ValueError: width < 1, a negative offset.
  static Mask window(std::int64_t width);
  static Mask window(std::int64_t width, Align align);
  static Mask window(std::int64_t width, std::int64_t offset);
  /// @}
  /// Every query sees keys 0..length - 1, or all when they are fewer, and no other. With it
  /// `Mask::causal() | Mask::prefix(n)` is the mask of a prefix language model. ValueError when
  /// negative.
  static Mask prefix(std::int64_t length);
  /// A query sees the keys of its own document: ids, i64, (batch, T) or (T), has a number for each
  /// position, equal within a document (several documents packed into a row). ShapeError in use
  /// unless there are T queries and T keys.
  static Mask documents(const Tensor& ids);

  /// True where a position is padding, a key that no query may see. bool, (batch, S) or (S).
  static Mask padding(const Tensor& is_padding);
  /// Only the first lengths[n] keys of sequence n are real; the rest is padding. ValueError when
  /// one is negative, ShapeError in use when one is more than S, or there are not as many as
  /// sequences.
  static Mask padding(std::vector<std::int64_t> lengths);

  /// True where a query may attend to a key. bool, broadcasts to the scores; a tensor of more than
  /// two dims has the rank of the scores, so that a batch is never taken for heads.
  static Mask keep(const Tensor& may_attend);
  /// True where a query may not attend to a key; shapes as for keep().
  static Mask hide(const Tensor& is_hidden);

  /// @{
  /// Keys that both (either) let be seen.
  friend Mask operator&(const Mask& a, const Mask& b);
  friend Mask operator|(const Mask& a, const Mask& b);
  /// @}

  /// Whether every query sees every key.
  bool hides_nothing() const { return rule_ == nullptr; }

  /// True where a key is hidden: bool, of a shape that broadcasts to `scores`. Undefined when the
  /// mask hides nothing. ShapeError when the mask does not fit these scores.
  Tensor hidden(const Shape& scores) const;

  /// The mask in two parts, as fused_attention takes them: a key is hidden when either hides it.
  struct Parts {
    std::optional<std::int64_t> causal_offset;  ///< query i sees keys 0..i + offset
    Tensor hidden;                              ///< as hidden(); undefined when it hides nothing
  };
  /// A triangle in the mask costs no tensor here, alone or combined by &. ShapeError as hidden().
  Parts parts(const Shape& scores) const;

  /// The same mask, whose tensor for `scores` is made once, when it is first asked for, so that the
  /// layers of a model share one; they share its parts(), too. For other shapes it is made anew.
  Mask prepared(const Shape& scores) const;

  /// One grid for each matrix of hidden(scores), '.' a key that may be seen, 'x' a hidden one, with
  /// a line that lists the queries that see nothing.
  std::string grid(const Shape& scores) const;

  /// What a kind of mask computes (nn/mask_rules.h).
  struct Rule;

 private:
  explicit Mask(std::shared_ptr<const Rule> rule) : rule_(std::move(rule)) {}
  std::shared_ptr<const Rule> rule_;
};

}  // namespace tapehead::nn
