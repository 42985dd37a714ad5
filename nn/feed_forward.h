// FeedForward: the part of a transformer layer that works on each position by itself.
#pragma once

#include <tapehead/nn/layers.h>

namespace tapehead::nn {

/// The function between the two maps; gelu_tanh is gelu with Approximate::tanh.
enum class Activation { gelu, gelu_tanh, relu };

/// "gelu", "gelu_tanh" or "relu"; ValueError otherwise.
Activation parse_activation(std::string_view text);
/// "gelu", "gelu_tanh" or "relu".
std::string_view to_string(Activation activation);

/// Of FeedForward.
struct FeedForwardOptions {
  std::int64_t dim = 0;     ///< features of input and output
  std::int64_t hidden = 0;  ///< width between the two maps
  Activation activation = Activation::gelu;  ///< between the maps
  double dropout = 0;  ///< after the activation, in training mode
  bool bias = true;    ///< whether the maps have one
  DType dtype = DType::f32;  ///< of parameters and results
};

/// linear2(dropout(activation(linear1(x)))), for each position by itself: (..., dim) -> (..., dim).
struct FeedForward : Module {
  /// Initial values are drawn from `generator`.
  explicit FeedForward(FeedForwardOptions options, Generator& generator = default_generator());

  /// ShapeError: another last dim. DTypeError: another dtype than the parameters'.
  Tensor operator()(const Tensor& x) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const FeedForwardOptions& options() const { return options_; }  ///< as given

  /// @{
  /// The parts of the formula.
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  /// @}

 private:
  FeedForwardOptions options_;
};

}  // namespace tapehead::nn
