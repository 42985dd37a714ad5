// Gpt: a causal language model, after Radford et al., "Language models are unsupervised multitask
// learners" (2019): embeddings of tokens and positions, pre-norm transformer layers, a last norm,
// and a map to logits.
#pragma once

#include <tapehead/nn/encoder_layer.h>
#include <tapehead/nn/sample.h>

#include <span>
#include <vector>

namespace tapehead::nn {

/// How Gpt tells positions (nn/positions.h).
enum class GptPositions {
  learned,     ///< a parameter for each, added to the token embedding
  sinusoidal,  ///< added to sqrt(dim) times the token embedding (Vaswani et al. 2017, section 3.4)
  rotary,      ///< queries and keys are turned in every layer
  alibi,       ///< a bias of the scores in every layer
};

/// One for each layer: what the layers have seen of a sequence, or of a batch of sequences.
using GptCache = std::vector<KeyValueCache>;

/// Of Gpt.
struct GptOptions {
  std::int64_t vocab_size = 0;  ///< different tokens
  std::int64_t context = 0;  ///< the longest sequence
  std::int64_t layers = 0;   ///< transformer blocks
  std::int64_t heads = 0;    ///< of queries; they divide dim
  std::int64_t dim = 0;      ///< features of a token
  double dropout = 0;        ///< of the blocks and the embeddings, in training mode
  bool tied_output = false;  ///< logits by the token embedding's own weight
  Activation activation = Activation::gelu;        ///< of the feed-forward parts
  GptPositions positions = GptPositions::learned;  ///< how the model knows them
  std::optional<std::int64_t> kv_heads = {};  ///< heads of keys and values; `heads` when not given
  AttentionPath path = AttentionPath::composed;  ///< of every layer
  Checkpointed checkpoint = Checkpointed::none;  ///< of every layer, but in decode()
  DType dtype = DType::f32;                      ///< of parameters and results
};

/// Tokens (N, T) or (T), i64 -> logits (..., T, vocab_size) of each next token. Embeddings start as
/// N(0, 0.02), the linear maps as Linear's.
/// ValueError: as MultiHeadAttention, and layers, context or vocab_size not positive, or sinusoidal
/// positions of an odd dim. ShapeError: tokens of another rank, or more than `context` of them.
/// IndexError: a token outside the vocabulary.
struct Gpt : Module {
  /// Initial values are drawn from `generator`.
  explicit Gpt(GptOptions options, Generator& generator = default_generator());

  /// The logits of the whole sequence, causal: what stands at t depends on tokens 0..t.
  Tensor operator()(const Tensor& tokens) const;

  /// The logits of the tokens that come next in a sequence, (N, t) or (t): with an empty cache its
  /// first ones. In parts this gives the logits of one pass. For inference, as KeyValueCache. An
  /// error leaves the cache as it was. ShapeError: also when the cache and the tokens together are
  /// longer than `context`. ValueError: a cache that is not empty and has another number of layers.
  Tensor decode(const Tensor& tokens, GptCache& cache) const;

  /// `prompt`, continued by `count` tokens, each drawn from the logits of the last position; of a
  /// long sequence the last `context` tokens are seen. Up to there a token costs one query against
  /// a cache; beyond, every token of the window has moved, and each step computes the whole window
  /// anew. Records nothing. Put the model in evaluation mode first, or dropout acts. ValueError: an
  /// empty prompt, a negative count, bad options.
  std::vector<std::int64_t> generate(std::vector<std::int64_t> prompt, std::int64_t count,
                                     const SampleOptions& options = {},
                                     Generator& generator = default_generator()) const;

  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const GptOptions& options() const { return options_; }  ///< as given

  Embedding token_embedding;                           ///< (vocab_size, dim)
  std::optional<LearnedPositions> position_embedding;  ///< absent for other positions
  Dropout dropout;                                     ///< of the embeddings
  std::vector<TransformerEncoderLayer> layers;         ///< pre-norm, in order
  LayerNorm norm;                                      ///< behind the last layer
  std::optional<Linear> head;  ///< without bias; absent when the output is tied

 private:
  Tensor embed(const Tensor& tokens, std::int64_t offset) const;
  Tensor features(const Tensor& tokens, GptCache* cache = nullptr) const;
  Tensor run_layers(Tensor x, const Shape& scores, GptCache* cache) const;
  Tensor logits(const Tensor& features) const;
  Tensor last_logits(std::span<const std::int64_t> tokens, GptCache& cache) const;

  GptOptions options_;
};

}  // namespace tapehead::nn
