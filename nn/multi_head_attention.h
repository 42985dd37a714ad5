// Multi-head attention: projections around attention on heads.
//
// The tape of one self-attention reads: three times linear, transpose and reshape (views); matmul,
// masked_fill, softmax, matmul; transpose, reshape (the one copy), linear. It saves x, q, k, v, the
// weights, the merged heads and the mask: 4 B h T^2 + 20 B T d + T^2 bytes in f32 under a causal
// mask.
#pragma once

#include <tapehead/nn/attention.h>
#include <tapehead/nn/key_value_cache.h>
#include <tapehead/nn/layers.h>
#include <tapehead/nn/positions.h>

#include <optional>

namespace tapehead::nn {

/// What the projections start from.
enum class ProjectionInit {
  linear_uniform,  ///< weights and biases as torch.nn.Linear's
  xavier_uniform,  ///< as torch.nn.MultiheadAttention: xavier_uniform of the stacked q, k, v
                   ///< weights, out_proj.weight as Linear's, biases 0
};

/// Of MultiHeadAttention.
struct MultiHeadAttentionOptions {
  std::int64_t embed_dim = 0;  ///< features of queries and output
  std::int64_t num_heads = 0;  ///< they divide embed_dim
  double dropout = 0;  ///< of the weights, in training mode
  bool bias = true;    ///< whether the projections have one
  std::optional<std::int64_t> kdim = {};  ///< features of the keys; embed_dim when not given
  std::optional<std::int64_t> vdim = {};  ///< features of the values; embed_dim when not given
  /// Heads of keys and values, each for a group of query heads; num_heads when not given, 1 for
  /// multi-query attention. Their projections and the cache are as much smaller.
  std::optional<std::int64_t> num_kv_heads = {};
  std::optional<double> scale = {};  ///< of the scores; 1 / sqrt(features of a head) when not given
  /// Turns queries and keys by their positions (nn/positions.h): for self-attention, also in parts.
  std::optional<RotaryOptions> rotary = {};
  ProjectionInit init = ProjectionInit::linear_uniform;  ///< initial values
  /// Of attention() where no weights are asked for; with weights it is composed.
  AttentionPath path = AttentionPath::composed;
  /// Whether a call that returns no weights keeps its inputs only, and runs again in the backward
  /// pass (nn/checkpoint.h). The module must then stay where it is until that pass.
  bool checkpoint = false;
  DType dtype = DType::f32;  ///< of parameters and results
};

/// Which weights to return.
enum class HeadWeights { averaged, per_head };

/// Multi-head attention with the parameters of torch.nn.MultiheadAttention under its names. Tensors
/// are batch first, (N, T, features), or (T, features) without a batch.
/// ValueError: sizes not positive, embed_dim not divisible by num_heads, or num_heads by
/// num_kv_heads, dropout outside [0, 1], rotary positions of heads with an odd number of features.
struct MultiHeadAttention : Module {
  /// Initial values are drawn from `generator`.
  explicit MultiHeadAttention(MultiHeadAttentionOptions options,
                              Generator& generator = default_generator());

  /// query (N, L, embed_dim), key (N, S, kdim), value (N, S, vdim) -> (N, L, embed_dim). The mask
  /// and the bias (AttentionOptions) are over scores (N, num_heads, L, S), with N = 1 for input
  /// without a batch; nn/mask_conversions.h makes both from PyTorch's masks. ShapeError.
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const Mask& mask = {}, const Tensor& bias = {}) const;
  /// Self-attention.
  Tensor operator()(const Tensor& x, const Mask& mask = {}) const { return (*this)(x, x, x, mask); }

  /// Output and weights of one call.
  struct WithWeights {
    Tensor output;   ///< as without weights
    Tensor weights;  ///< (N, L, S), or per head (N, num_heads, L, S); no N without a batch
  };
  /// The same output, and the attention weights as they were before dropout: rows sum to 1.
  WithWeights with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                           const Mask& mask = {}, HeadWeights which = HeadWeights::averaged,
                           const Tensor& bias = {}) const;

  /// Causal self-attention of the next tokens, x (N, t, embed_dim) or (t, embed_dim): they stand at
  /// positions cache.size() on, see all before them and, of each other, what is not later; then
  /// the cache holds them, too. Token by token this gives the output of one pass with
  /// Mask::causal(). `mask` hides more (padding); it and the bias are over scores (N, num_heads, t,
  /// cache.size() with t). Dropout acts in training mode. After an error cache.truncate() undoes
  /// the step. ShapeError, DTypeError and StateError: also as KeyValueCache::append.
  Tensor decode(const Tensor& x, KeyValueCache& cache, const Mask& mask = {},
                const Tensor& bias = {}) const;

  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const MultiHeadAttentionOptions& options() const { return options_; }  ///< as given

  // kv_dim is embed_dim * num_kv_heads / num_heads. The first weight is there when kdim = vdim =
  // embed_dim, else the next three are; nn/projection_layouts.h converts between them.
  Tensor in_proj_weight;  ///< (embed_dim + 2 kv_dim, embed_dim): rows of q, then of k, then of v
  Tensor q_proj_weight;   ///< (embed_dim, embed_dim)
  Tensor k_proj_weight;   ///< (kv_dim, kdim)
  Tensor v_proj_weight;   ///< (kv_dim, vdim)
  Tensor in_proj_bias;    ///< (embed_dim + 2 kv_dim), or undefined
  Linear out_proj;        ///< embed_dim -> embed_dim

 private:
  struct Heads {
    Tensor q, k, v;  // (N, heads, time, features of a head)
  };
  Tensor project(const Tensor& x, int part) const;
  Heads project(const Tensor& query, const Tensor& key, const Tensor& value,
                std::int64_t offset) const;
  WithWeights attend(const Heads& heads, AttentionOptions options,
                     std::optional<HeadWeights> which) const;
  void check(const Tensor& query, const Tensor& key, const Tensor& value) const;
  WithWeights run(const Tensor& query, const Tensor& key, const Tensor& value,
                  const AttentionOptions& options, std::optional<HeadWeights> which) const;
  Tensor run_checkpointed(const Tensor& query, const Tensor& key, const Tensor& value,
                          AttentionOptions options) const;

  MultiHeadAttentionOptions options_;
};

}  // namespace tapehead::nn
