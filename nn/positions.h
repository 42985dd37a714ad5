// Where a token stands: attention by itself does not know it. Four ways to tell it:
//   sinusoidal_positions   waves of fixed lengths, added to the embeddings
//   LearnedPositions       a parameter for each position, added to the embeddings
//   rotate_positions       queries and keys turned by their position, before the scores (rotary)
//   alibi_bias             a bias of the scores that falls with the distance (ALiBi)
//
// A sequence that is decoded in parts gives the offset of its part: the first token stands there.
// Tables are computed in f64 and then rounded to the dtype asked for.
#pragma once

#include <tapehead/nn/module.h>

namespace tapehead::nn {

// ---- added to the embeddings -------------------------------------------------------------------

/// Positions offset, offset + 1, ... as rows of a (count, dim) table:
///   y(p, 2i) = sin(p / 10000^(2i / dim)),   y(p, 2i + 1) = cos(p / 10000^(2i / dim))
/// (Vaswani et al., "Attention is all you need", 2017, section 3.5). A constant.
/// ValueError: a negative count or offset, or dim not positive and even.
Tensor sinusoidal_positions(std::int64_t count, std::int64_t dim, std::int64_t offset = 0,
                            DType dtype = DType::f32);

/// Of LearnedPositions.
struct LearnedPositionsOptions {
  std::int64_t max_positions = 0;  ///< rows
  std::int64_t dim = 0;            ///< features of a row
  double deviation = 0.02;  ///< of the normal initial values
  DType dtype = DType::f32;  ///< of parameters and results
};

/// Rows of a table of parameters. ValueError unless the sizes are positive.
struct LearnedPositions : Module {
  /// Initial values are drawn from `generator`.
  explicit LearnedPositions(LearnedPositionsOptions options,
                            Generator& generator = default_generator());

  /// Positions offset..offset + count - 1: (count, dim), a view, where a look-up would copy.
  /// IndexError: beyond max_positions.
  Tensor operator()(std::int64_t count, std::int64_t offset = 0) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const LearnedPositionsOptions& options() const { return options_; }  ///< as given

  Tensor weight;  ///< (max_positions, dim)

 private:
  LearnedPositionsOptions options_;
};

// ---- rotary ------------------------------------------------------------------------------------

/// Which features form a pair that is turned together.
enum class RotaryPairs {
  adjacent,  ///< (0, 1), (2, 3), ...: as in the paper, in GPT-J and in Meta's Llama files
  halves,    ///< (0, E/2), (1, E/2 + 1), ...: as in GPT-NeoX and in Hugging Face's Llama files
};

/// Of rotary positions.
struct RotaryOptions {
  double base = 10000;                        ///< the longest wave is about 2 pi times this
  RotaryPairs pairs = RotaryPairs::adjacent;  ///< which features are turned together
};

/// The cosines and sines of the angles p * base^(-2i / E) of positions p = offset, offset + 1, ...,
/// each (count, E / 2).
struct RotaryTable {
  Tensor cosines;                             ///< of the angles
  Tensor sines;                               ///< of the angles
  RotaryPairs pairs = RotaryPairs::adjacent;  ///< as rotate_positions applies them
};

/// The table for features E. A constant. ValueError: a negative count or offset, E not positive and
/// even, base not a finite number above 0.
RotaryTable rotary_table(std::int64_t count, std::int64_t features, std::int64_t offset = 0,
                         const RotaryOptions& options = {}, DType dtype = DType::f32);

/// Turns the pair i of features of each token, (a, b), by its angle t of the table:
///   (a cos t - b sin t,  a sin t + b cos t)
/// so that the product of a query with a key depends on their distance only (Su et al., "RoFormer",
/// 2021, section 3.2). x (..., T, E), queries or keys of any number of heads -> the same shape.
/// saves the table;  dx = the gradient, turned back
/// ShapeError: the table is for another T or E. DTypeError: another dtype.
Tensor rotate_positions(const Tensor& x, const RotaryTable& table);

// ---- ALiBi -------------------------------------------------------------------------------------

/// The slope of each head: 2^(-8/n), 2^(-16/n), ..., 2^-8 for n heads, a power of 2. For another
/// number the slopes of the next smaller power m, then every other one of those of 2m (Press et
/// al., "Train short, test long", 2022, and the code that they published with it). ValueError: no
/// heads.
std::vector<double> alibi_slopes(std::int64_t heads);

/// -slope(h) * |distance| for scores (..., heads, queries, keys), query i standing at position
/// i + offset: (heads, queries, keys). A constant; pass it as the bias of attention. Under a causal
/// mask this is the paper's; without one it tells distances and no direction. ValueError: no heads,
/// a negative number.
Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t keys,
                  std::int64_t offset = 0, DType dtype = DType::f32);

}  // namespace tapehead::nn
