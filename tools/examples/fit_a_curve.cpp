// Fits a curve to noisy points with a multilayer perceptron, and draws both in the terminal.
// Succeeds if the fit is closer to the true curve than the points are.
#include <tapehead/tapehead.h>

#include <cmath>
#include <iostream>
#include <string>
#include <vector>

using namespace tapehead;

struct Mlp : nn::Module {
  nn::Linear first{1, 32};
  nn::Linear second{32, 32};
  nn::Linear last{32, 1};

  void visit(nn::Visitor& v) override {
    v("first", first);
    v("second", second);
    v("last", last);
  }
  Tensor operator()(const Tensor& x) const {
    const ModuleScope scope = enter();
    return last(tanh(second(tanh(first(x)))));
  }
};

Tensor true_curve(const Tensor& x) { return sin(x * 2) * exp(x * -0.3); }

// A grid of characters for x in [-3, 3] and y in [-2.5, 2.5].
class Plot {
 public:
  void draw(const Tensor& x, const Tensor& y, char mark) {
    const std::vector<double> xs = x.to_vector(), ys = y.to_vector();
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const double column = (xs[i] + 3) / 6 * (columns - 1);
      const double row = (2.5 - ys[i]) / 5 * (rows - 1);
      if (row > -0.5 && row < rows - 0.5)
        grid_[static_cast<std::size_t>(std::lround(row))]
             [static_cast<std::size_t>(std::lround(column))] = mark;
    }
  }
  void print() const {
    for (const std::string& line : grid_) std::cout << line << "\n";
  }

 private:
  static constexpr int columns = 79, rows = 21;
  std::vector<std::string> grid_ = std::vector<std::string>(rows, std::string(columns, ' '));
};

int main() {
  manual_seed(1);
  const Tensor x = uniform({200, 1}, -3, 3);
  const Tensor y = true_curve(x) + randn(x.shape()) * 0.15;

  Mlp model;
  const int steps = 1500;
  const nn::CosineSchedule schedule{.peak = 1e-2, .floor = 1e-4, .warmup = 50, .total = steps};
  nn::AdamW optimizer(model);
  for (int step = 0; step < steps; ++step) {
    optimizer.set_lr(schedule(step));
    Tape tape;
    const Tensor loss = mse_loss(model(x), y);
    optimizer.step(tape.gradient(loss, model.parameters()));
    if (step % 250 == 0) std::cout << "step " << step << "  loss " << loss.item() << "\n";
  }

  // No tape is open here, so nothing is recorded.
  const Tensor everywhere = unsqueeze(arange(-3, 3, 0.01), 1);
  Plot plot;
  plot.draw(x, y, '.');
  plot.draw(everywhere, model(everywhere), '#');
  plot.print();

  const double noise = mse_loss(y, true_curve(x)).item();
  const double error = mse_loss(model(everywhere), true_curve(everywhere)).item();
  std::cout << "mean squared distance from the true curve: points (.) " << noise << ", fit (#) "
            << error << "\n";
  return error < noise / 4 ? 0 : 1;
}
