#include <tapehead/core/dry_run.h>
#include <tapehead/nn/module.h>
#include <tapehead/nn/state_reader.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/write.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

namespace tapehead::nn {
namespace {

// Visits everything below a module: on_parameter(full name, tensor) for each parameter and
// on_module(name below its parent, depth, module) for each module, parents first.
template <class OnParameter, class OnModule>
class Walk final : public Visitor {
 public:
  Walk(OnParameter on_parameter, OnModule on_module)
      : on_parameter_(std::move(on_parameter)), on_module_(std::move(on_module)) {}

 private:
  void on_parameter(std::string_view name, Tensor& parameter) override {
    on_parameter_(path_ + std::string(name), parameter);
  }
  void on_child(std::string_view name, Module& child) override {
    on_module_(name, depth_, child);
    const std::size_t length = path_.size();
    if (!name.empty()) path_.append(name) += '.';
    ++depth_;
    child.visit(*this);
    --depth_;
    path_.resize(length);
  }

  OnParameter on_parameter_;
  OnModule on_module_;
  std::string path_;
  int depth_ = 1;
};

// visit() hands out references that can be written through; the walks of const functions only read.
template <class OnParameter, class OnModule>
void walk(const Module& module, OnParameter on_parameter, OnModule on_module) {
  Walk visitor(std::move(on_parameter), std::move(on_module));
  const_cast<Module&>(module).visit(visitor);
}

constexpr auto ignore_parameter = [](const std::string&, Tensor&) {};
constexpr auto ignore_module = [](std::string_view, int, Module&) {};

}  // namespace

// ---- Visitor -----------------------------------------------------------------------------------

void Visitor::operator()(std::string_view name, Tensor& parameter) {
  if (parameter.defined()) on_parameter(name, parameter);
}

void Visitor::operator()(std::string_view name, Module& child) { on_child(name, child); }

// ---- Module ------------------------------------------------------------------------------------

Module& Module::operator=(Module&& other) noexcept {
  training_ = other.training_;
  named_ = false;
  return *this;
}

StateDict Module::state_dict() const {
  StateDict state;
  std::unordered_set<std::string> names;
  const auto add = [&](const std::string& name, Tensor& parameter) {
    if (!parameter.is_leaf())
      throw StateError("module", "part \"" + name + "\", " + describe(parameter) +
                                     ", is no leaf: make it one with parameter()");
    if (!names.insert(name).second)
      throw StateError("module", "two parts are named \"" + name + "\"");
    state.push_back({name, parameter});
  };
  walk(*this, add, ignore_module);
  return state;
}

StateDict Module::named_parameters() const {
  StateDict state = state_dict();
  std::unordered_set<const detail::TensorImpl*> seen;
  std::erase_if(state,
                [&](const NamedTensor& entry) { return !seen.insert(entry.tensor.impl()).second; });
  return state;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> parameters;
  for (NamedTensor& entry : named_parameters()) parameters.push_back(std::move(entry.tensor));
  return parameters;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

void Module::load_state_dict(const StateDict& state) {
  if (Tape::recording())
    throw StateError("load_state_dict",
                     "a tape records on this thread, and may have saved what "
                     "would be written to");
  StateReader reader("load_state_dict", state);
  std::unordered_map<const detail::TensorImpl*, Tensor> first_values;
  const StateDict own = state_dict();
  for (const NamedTensor& entry : own) {
    const Tensor value = reader.take(entry.name, entry.tensor.shape(), entry.tensor.dtype());
    if (!value.defined()) continue;
    const Tensor& first = first_values.emplace(entry.tensor.impl(), value).first->second;
    launch([&] {
      if (!first.is_same(value) && !equal(first, value))
        reader.complain(entry.name, "differs from the other name of the same parameter");
    });
  }
  reader.finish();
  for (const NamedTensor& entry : own) copy_(entry.tensor, first_values.at(entry.tensor.impl()));
}

void Module::train(bool on) {
  // Written only where it changes, so that setting the mode that is set races with no reader.
  const auto set = [on](Module& module) {
    if (module.training_ != on) module.training_ = on;
  };
  set(*this);
  walk(*this, ignore_parameter, [&](std::string_view, int, Module& child) { set(child); });
}

void Module::name_parts() const {
  std::unordered_set<const detail::TensorImpl*> seen;
  const auto name_parameter = [&](const std::string& name, Tensor& parameter) {
    if (seen.insert(parameter.impl()).second) parameter.set_name(name);
  };
  const auto name_child = [](std::string_view name, int, Module& child) {
    child.name_ = name;
    std::atomic_ref(child.named_).store(true, std::memory_order_release);
  };
  walk(*this, name_parameter, name_child);
  std::atomic_ref(named_).store(true, std::memory_order_release);
}

void Module::name_parameters() { name_parts(); }

ModuleScope Module::enter() const {
  static std::mutex mutex;
  if (!std::atomic_ref(named_).load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex);
    if (!named_) name_parts();
  }
  return ModuleScope(name_);
}

std::vector<Tensor> Module::unlisted_leaves(const Tape& tape) const {
  std::unordered_set<const detail::TensorImpl*> listed;
  for (const Tensor& parameter : parameters()) listed.insert(parameter.impl());
  std::vector<Tensor> unlisted;
  for (const Tensor& leaf : tape.leaves())
    if (!listed.contains(leaf.impl())) unlisted.push_back(leaf);
  return unlisted;
}

void Module::check_all_listed(const Tape& tape) const {
  std::string text;
  for (const Tensor& leaf : unlisted_leaves(tape))
    text += (text.empty() ? "" : ", ") + describe(leaf);
  if (!text.empty())
    throw StateError("module", summary() + ": parameters() does not list " + text +
                                   ", used on the tape; does visit() name every part?");
}

std::string to_string(const Module& module) {
  std::string text =
      module.summary() + ": " + std::to_string(module.parameter_count()) + " parameters\n";
  walk(module, ignore_parameter, [&](std::string_view name, int depth, Module& child) {
    text += std::string(static_cast<std::size_t>(2 * depth), ' ');
    if (!name.empty()) text += std::string(name) + ": ";
    text += child.summary() + "\n";
  });
  return text;
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  return out << to_string(module);
}

// ---- EvalMode ----------------------------------------------------------------------------------

EvalMode::EvalMode(Module& module) {
  const auto remember = [&](Module& part) {
    if (part.training_) training_.push_back(&part);
  };
  remember(module);
  walk(module, ignore_parameter, [&](std::string_view, int, Module& child) { remember(child); });
  module.eval();
}

EvalMode::~EvalMode() {
  for (Module* module : training_) module->training_ = true;
}

}  // namespace tapehead::nn
