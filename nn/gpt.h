// Gpt: a causal language model, after Radford et al., "Language models are unsupervised multitask
// learners" (2019): token and learned position embeddings, pre-norm transformer blocks, a last
// norm, and a map to logits.
#pragma once

#include <tapehead/nn/sample.h>
#include <tapehead/nn/transformer.h>

#include <span>
#include <vector>

namespace tapehead::nn {

struct GptOptions {
  std::int64_t vocab_size = 0;
  std::int64_t context = 0;  ///< the longest sequence
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  double dropout = 0;        ///< of the blocks and the embeddings, in training mode
  bool tied_output = false;  ///< logits by the token embedding's own weight
  Activation activation = Activation::gelu;
  DType dtype = DType::f32;
};

/// Tokens (N, T) or (T), i64 -> logits (..., T, vocab_size) of each next token. Embeddings start as
/// N(0, 0.02), the linear maps as Linear's.
/// ValueError: sizes not positive, dim not divisible by heads, dropout outside [0, 1]. ShapeError:
/// tokens of another rank, or more than `context` of them. IndexError: a token outside the
/// vocabulary.
struct Gpt : Module {
  explicit Gpt(GptOptions options, Generator& generator = default_generator());

  Tensor operator()(const Tensor& tokens) const;

  /// `prompt`, continued by `count` tokens, each drawn from the logits of the last position; of a
  /// long sequence the last `context` tokens are seen. Records nothing. Put the model in evaluation
  /// mode first, or dropout acts. ValueError: an empty prompt, a negative count, bad options.
  std::vector<std::int64_t> generate(std::vector<std::int64_t> prompt, std::int64_t count,
                                     const SampleOptions& options = {},
                                     Generator& generator = default_generator()) const;

  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const GptOptions& options() const { return options_; }

  Embedding token_embedding;
  Embedding position_embedding;
  Dropout dropout;
  std::vector<TransformerBlock> layers;
  LayerNorm norm;
  std::optional<Linear> head;  ///< without bias; absent when the output is tied

 private:
  Tensor embed(const Tensor& tokens) const;
  Tensor features(const Tensor& tokens) const;
  Tensor logits(const Tensor& features) const;

  GptOptions options_;
};

}  // namespace tapehead::nn
