// Optimizers. A step writes the parameters in place, outside any tape, and bumps their versions, so
// that a tape which saved one of them finds out.
//
// A parameter that the loss did not reach is skipped: no decay, no momentum, no count of a step. An
// optimizer holds on to the tensors that it was given; when a module's parameter was replaced by
// another leaf, its gradient is not among those of the step, which is a StateError.
//
// state() is a list of named tensors: moments, counts of steps and hyperparameters. Loading it into
// an optimizer of the same parameters continues bit for bit.
#pragma once

#include <tapehead/core/gradients.h>
#include <tapehead/nn/module.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tapehead::nn {

class StateReader;

/// Parameters that are stepped alike.
struct ParameterGroup {
  StateDict parameters;                     ///< leaves with their names
  std::optional<double> weight_decay = {};  ///< the optimizer's own when not given
  double lr_scale = 1;                      ///< a factor of the optimizer's lr
};

/// What an optimizer steps: all parameters of a module, a list of tensors, or groups.
class Parameters {
 public:
  /// All of a module.
  Parameters(const Module& module);  // NOLINT: stands for the list
  /// These leaves.
  Parameters(const std::vector<Tensor>& tensors);  // NOLINT: named "0", "1", ...
  /// These groups.
  Parameters(std::vector<ParameterGroup> groups)  // NOLINT
      : groups_(std::move(groups)) {}

  /// One group unless groups were given.
  const std::vector<ParameterGroup>& groups() const { return groups_; }

 private:
  std::vector<ParameterGroup> groups_;
};

/// The parameters of a module in two groups: matrices and larger, with the optimizer's weight
/// decay, and what has fewer than two dims (biases, the weights of norms), without.
std::vector<ParameterGroup> decay_groups(const Module& module);

/// Base of the optimizers: who is stepped, the state and its loading.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One step along `gradients`, which may hold more than this optimizer's parameters. StateError
  /// when one of them is not there. Any error, also when memory is short, comes before anything is
  /// written: the step is made for all parameters or for none.
  void step(const Gradients& gradients);

  /// The learning rate.
  double lr() const { return number("lr"); }
  /// For schedules. ValueError unless finite and not negative.
  void set_lr(double lr);

  /// Everything that step() reads beside parameters and gradients: hyperparameters and counts of
  /// steps as 0-d tensors, and handles to the moments of parameters that were stepped, by name.
  StateDict state() const;
  /// Takes over all of it, hyperparameters included. ValueError lists what is missing, unexpected,
  /// of another shape or dtype, or says what is out of range; then nothing was changed.
  void load_state(const StateDict& state);

 protected:
  /// Hyperparameters by name; a switch is 0 or 1.
  using Numbers = std::map<std::string, double>;

  /// A parameter and its state.
  struct Entry {
    std::string name;                ///< in state dicts
    Tensor parameter;                ///< a handle to the leaf
    std::size_t group = 0;           ///< which of the groups
    std::int64_t steps = 0;          ///< that were made
    std::vector<Tensor> slots = {};  ///< by slot_names(); none before the first step
  };

  /// `name` opens error texts and lives as long as the process; `numbers` are those of the kind of
  /// optimizer. The constructor of the kind ends with check_all(). ValueError: a tensor is no leaf,
  /// is expanded or given twice, or two have one name.
  Optimizer(const char* name, const Parameters& parameters, double lr, double weight_decay,
            Numbers numbers);

  /// ValueError when one of the kind's numbers is out of range.
  virtual void check(const Numbers& numbers) const = 0;
  /// The tensors of state that each parameter has, shaped like it and 0 at first.
  virtual std::vector<const char*> slot_names(const Numbers& numbers) const = 0;
  /// Writes the parameter and its slots; entry.steps counts this step. Allocates nothing.
  virtual void update(const Entry& entry, const Tensor& gradient, double lr,
                      double weight_decay) const = 0;

  /// check() of the numbers, and of those that all kinds have.
  void check_all() const { check_all(numbers_); }
  /// A hyperparameter by its name, which exists.
  double number(const std::string& name) const { return numbers_.at(name); }
  /// The kind of optimizer, for errors.
  const char* name() const { return name_; }

 private:
  void add(const NamedTensor& parameter, std::size_t group);
  std::vector<Tensor> slots_of(const Entry& entry) const;
  void check_all(const Numbers& numbers) const;
  void read_entry(StateReader& reader, const Numbers& numbers, Entry& entry) const;

  const char* const name_;
  Numbers numbers_;
  std::vector<Entry> entries_;
};

/// Of SGD; the names are PyTorch's.
struct SGDOptions {
  double lr = 1e-3;         ///< learning rate
  double momentum = 0;      ///< how much of the last direction is kept
  bool nesterov = false;    ///< ValueError without momentum
  double weight_decay = 0;  ///< pulls parameters to 0
};

/// g = g + weight_decay * p;  with momentum: b = momentum * b + g, from b = 0, and then
/// g = g + momentum * b (Nesterov) or b;  p = p - lr * g. As torch.optim.SGD (Sutskever et al.
/// 2013). ValueError: momentum, lr or weight_decay negative or not finite.
class SGD final : public Optimizer {
 public:
  /// ValueError as above, and as Optimizer's.
  explicit SGD(const Parameters& parameters, SGDOptions options = {});

 private:
  void check(const Numbers& numbers) const override;
  std::vector<const char*> slot_names(const Numbers& numbers) const override;
  void update(const Entry& entry, const Tensor& gradient, double lr,
              double weight_decay) const override;
};

/// Of Adam; the names are PyTorch's.
struct AdamOptions {
  double lr = 1e-3;                            ///< learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< of the moments m and v
  double eps = 1e-8;                           ///< keeps the quotient finite
  double weight_decay = 0;                     ///< pulls parameters to 0
};

/// g = g + weight_decay * p;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  at step k
/// p = p - lr * (m / (1 - b1^k)) / (sqrt(v / (1 - b2^k)) + eps)  (Kingma and Ba 2015).
/// ValueError: betas outside [0, 1); lr, eps or weight_decay negative or not finite.
class Adam : public Optimizer {
 public:
  /// ValueError as above, and as Optimizer's.
  explicit Adam(const Parameters& parameters, const AdamOptions& options = {})
      : Adam("Adam", parameters, options, false) {}

 protected:
  /// `decoupled`: weight decay as AdamW does it.
  Adam(const char* name, const Parameters& parameters, const AdamOptions& options, bool decoupled);

 private:
  void check(const Numbers& numbers) const override;
  std::vector<const char*> slot_names(const Numbers& numbers) const override;
  void update(const Entry& entry, const Tensor& gradient, double lr,
              double weight_decay) const override;

  const bool decoupled_;
};

/// Of AdamW; the names are PyTorch's.
struct AdamWOptions {
  double lr = 1e-3;                            ///< learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< of the moments m and v
  double eps = 1e-8;                           ///< keeps the quotient finite
  double weight_decay = 0.01;                  ///< pulls parameters to 0
};

/// p = p - lr * weight_decay * p, then as Adam without decay (Loshchilov and Hutter 2019).
class AdamW final : public Adam {
 public:
  /// ValueError as above, and as Optimizer's.
  explicit AdamW(const Parameters& parameters, const AdamWOptions& options = {})
      : Adam("AdamW", parameters, {options.lr, options.betas, options.eps, options.weight_decay},
             true) {}
};

/// Scales all gradients so that their norm, taken over all elements together, is at most max_norm:
/// a factor of min(1, max_norm / (norm + 1e-6)). Returns the norm before, f64, 0-d; 0 when nothing
/// was reached. A norm that is infinite or NaN is a ValueError and the gradients stay as they are;
/// with error_if_nonfinite = false it is returned and they stay as they are.
/// ValueError: max_norm negative or NaN. StateError: gradients to be scaled are recorded
/// (create_graph).
Tensor clip_grad_norm(Gradients& gradients, double max_norm, bool error_if_nonfinite = true);

}  // namespace tapehead::nn
