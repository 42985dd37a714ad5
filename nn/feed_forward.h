// FeedForward: the part of a transformer layer that works on each position by itself.
#pragma once

#include <tapehead/nn/layers.h>

namespace tapehead::nn {

enum class Activation { gelu, gelu_tanh, relu };

/// "gelu", "gelu_tanh" or "relu"; ValueError otherwise.
Activation parse_activation(std::string_view text);
std::string_view to_string(Activation activation);

struct FeedForwardOptions {
  std::int64_t dim = 0;
  std::int64_t hidden = 0;  ///< width between the two maps
  Activation activation = Activation::gelu;
  double dropout = 0;  ///< after the activation, in training mode
  bool bias = true;
  DType dtype = DType::f32;
};

/// linear2(dropout(activation(linear1(x)))), for each position by itself: (..., dim) -> (..., dim).
struct FeedForward : Module {
  explicit FeedForward(FeedForwardOptions options, Generator& generator = default_generator());

  Tensor operator()(const Tensor& x) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const FeedForwardOptions& options() const { return options_; }

  Linear linear1;
  Dropout dropout;
  Linear linear2;

 private:
  FeedForwardOptions options_;
};

}  // namespace tapehead::nn
