#include <tapehead/nn/feed_forward.h>
#include <tapehead/ops/activations.h>

#include <array>

namespace tapehead::nn {

// ---- Activation --------------------------------------------------------------------------------

namespace {

constexpr std::array activation_names = {
    std::pair{Activation::gelu, "gelu"},
    std::pair{Activation::gelu_tanh, "gelu_tanh"},
    std::pair{Activation::relu, "relu"},
};

Tensor activate(Activation activation, Tensor x) {
  switch (activation) {
    case Activation::gelu: return gelu(std::move(x));
    case Activation::gelu_tanh: return gelu(std::move(x), Approximate::tanh);
    case Activation::relu: break;
  }
  return relu(std::move(x));
}

}  // namespace

Activation parse_activation(std::string_view text) {
  for (const auto& [activation, name] : activation_names)
    if (text == name) return activation;
  throw ValueError("activation",
                   "\"" + std::string(text) + "\" must be \"gelu\", \"gelu_tanh\" or \"relu\"");
}

std::string_view to_string(Activation activation) {
  return activation_names[static_cast<std::size_t>(activation)].second;
}

// ---- FeedForward -------------------------------------------------------------------------------

FeedForward::FeedForward(FeedForwardOptions options, Generator& generator)
    : linear1({.in_features = options.dim,
               .out_features = options.hidden,
               .bias = options.bias,
               .dtype = options.dtype},
              generator),
      dropout(options.dropout),
      linear2({.in_features = options.hidden,
               .out_features = options.dim,
               .bias = options.bias,
               .dtype = options.dtype},
              generator),
      options_(options) {}

Tensor FeedForward::operator()(const Tensor& x) const {
  const ModuleScope scope = enter();
  Tensor hidden = linear1(x);
  hidden = activate(options_.activation, std::move(hidden));
  hidden = dropout(std::move(hidden));
  return linear2(hidden);
}

void FeedForward::visit(Visitor& visitor) {
  visitor("linear1", linear1);
  visitor("dropout", dropout);
  visitor("linear2", linear2);
}

std::string FeedForward::summary() const {
  return "FeedForward(" + std::to_string(options_.dim) + " -> " + std::to_string(options_.hidden) +
         " -> " + std::to_string(options_.dim) + ", " +
         std::string(to_string(options_.activation)) + ")";
}

}  // namespace tapehead::nn
