// Module: a plain struct that owns parameters and other modules.
//
//     struct Mlp : nn::Module {
//       nn::Linear hidden{{.in_features = 2, .out_features = 16}};
//       nn::Linear output{{.in_features = 16, .out_features = 1}};
//
//       void visit(nn::Visitor& v) override {
//         v("hidden", hidden);
//         v("output", output);
//       }
//       Tensor operator()(const Tensor& x) const {
//         const ModuleScope scope = enter();
//         return output(tanh(hidden(x)));
//       }
//     };
//
// visit() names every part once; parameters(), state dicts, printing, train() and the module paths
// in graphs all follow from it. Modules can be moved but not copied: a copy would share parameters,
// clone() makes one that does not.
//
// Threads: any number may call one module at once. The first call of the outermost module names all
// its parts and parameters; whoever calls a part on its own before that should not do so while
// another thread makes that first call. Everything that is not const is for one thread.
#pragma once

#include <tapehead/core/random.h>
#include <tapehead/core/scope.h>
#include <tapehead/core/tape.h>
#include <tapehead/nn/named_tensor.h>

#include <concepts>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapehead::nn {

class Module;

/// What a module reports its parts to, by names that are unique among them ("weight", "layers").
class Visitor {
 public:
  virtual ~Visitor() = default;

  /// A parameter. One that is undefined (a bias left out) is passed over.
  void operator()(std::string_view name, Tensor& parameter);
  /// A child. One without a name adds no level: its parts are named as its parent's own.
  void operator()(std::string_view name, Module& child);
  /// Children "name.0", "name.1", ...
  template <class Child>
  void operator()(std::string_view name, std::vector<Child>& children) {
    for (std::size_t i = 0; i < children.size(); ++i)
      (*this)(std::string(name) + "." + std::to_string(i), children[i]);
  }
  /// A child that may be absent.
  template <std::derived_from<Module> Child>
  void operator()(std::string_view name, std::optional<Child>& child) {
    if (child) (*this)(name, *child);
  }
  /// The same for one on the heap.
  template <std::derived_from<Module> Child>
  void operator()(std::string_view name, std::unique_ptr<Child>& child) {
    if (child) (*this)(name, *child);
  }

 protected:
  /// What to do with a parameter, which is defined.
  virtual void on_parameter(std::string_view name, Tensor& parameter) = 0;
  /// What to do with a child.
  virtual void on_child(std::string_view name, Module& child) = 0;
};

/// Base of everything that owns parameters or other modules.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  /// Takes parameters and mode over.
  Module(Module&& other) noexcept = default;
  /// The name belongs to the place in the parent, so it stays.
  Module& operator=(Module&& other) noexcept;

  /// Names every parameter and child, each once, always in one order.
  virtual void visit(Visitor& visitor) = 0;
  /// Kind and options on one line, as printing shows them: "Linear(2 -> 16)".
  virtual std::string summary() const { return "Module"; }

  /// All parameters below this module, a shared (tied) one once, at its first name.
  /// StateError, here and in the next two: a part is no leaf (parameter() was forgotten, or its
  /// handle was overwritten by a result), or two parts have one name.
  std::vector<Tensor> parameters() const;
  /// The same with their names.
  StateDict named_parameters() const;
  /// The same with every name of a tied parameter. Handles, not copies.
  StateDict state_dict() const;
  /// Number of elements of all parameters().
  std::int64_t parameter_count() const;

  /// Copies values into the parameters in place: the parameters stay the same leaves, so an
  /// optimizer keeps its hold on them. Strict: ValueError lists all names that are missing,
  /// unexpected, twice there, of another shape or dtype, or of tied parameters whose values differ;
  /// then nothing was written. A bf16 or f16 entry is converted to an f32 or f64 parameter, which
  /// holds it exactly; to load others cast them with to(). StateError while a tape records.
  void load_state_dict(const StateDict& state);

  /// Training or evaluation mode of this module and all below it. Modules start in training mode.
  void train(bool on = true);
  /// Evaluation mode.
  void eval() { train(false); }
  /// Whether it is in training mode.
  bool training() const { return training_; }

  /// Gives each parameter its full name as its tensor's name, for graphs and errors, and each child
  /// its place in module paths. The first call does it unasked; afterwards it is needed only when
  /// parts were added or replaced.
  void name_parameters();

  /// The leaves that were used on `tape` and that parameters() does not list: a part that visit()
  /// forgot, another model's parameters, or inputs made leaves on purpose.
  std::vector<Tensor> unlisted_leaves(const Tape& tape) const;
  /// StateError that names the unlisted leaves, if there are any.
  void check_all_listed(const Tape& tape) const;

 protected:
  /// Opens this module's level of the module path. The first line of every call.
  ModuleScope enter() const;

 private:
  void name_parts() const;

  friend class EvalMode;

  std::string name_;  // below the parent; empty for a module that has none
  bool training_ = true;
  mutable bool named_ = false;  // the parts have their names; read and written atomically
};

/// The tree below a module, a line each, with the number of parameters.
std::string to_string(const Module& module);
/// Writes to_string(module).
std::ostream& operator<<(std::ostream& out, const Module& module);

/// A module with the options and values of `module` and parameters of its own, in its mode.
template <class M>
requires std::derived_from<M, Module> M clone(const M& module) {
  Generator unused;  // the initial values are overwritten
  M copy(module.options(), unused);
  copy.load_state_dict(module.state_dict());
  copy.train(module.training());
  return copy;
}

/// Evaluation mode while it lives; afterwards every module has the mode that it had. The module
/// must not be moved meanwhile.
class EvalMode {
 public:
  /// Puts the module, and all below it, into evaluation mode.
  explicit EvalMode(Module& module);
  ~EvalMode();
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<Module*> training_;
};

}  // namespace tapehead::nn
