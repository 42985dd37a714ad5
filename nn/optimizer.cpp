#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/nn/check.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/nn/state_reader.h>
#include <tapehead/ops/kernels/optimizer.h>

#include <cmath>

namespace tapehead::nn {

// ---- what to step --------------------------------------------------------------------------------

Parameters::Parameters(const Module& module) : groups_{{.parameters = module.named_parameters()}} {}

Parameters::Parameters(const std::vector<Tensor>& tensors) : groups_(1) {
  for (const Tensor& tensor : tensors) {
    StateDict& list = groups_[0].parameters;
    list.push_back({std::to_string(list.size()), tensor});
  }
}

std::vector<ParameterGroup> decay_groups(const Module& module) {
  std::vector<ParameterGroup> groups(2);
  groups[1].weight_decay = 0;
  for (const NamedTensor& parameter : module.named_parameters())
    groups[parameter.tensor.rank() < 2 ? 1 : 0].parameters.push_back(parameter);
  return groups;
}

// ---- Optimizer -----------------------------------------------------------------------------------

Optimizer::Optimizer(const char* name, const Parameters& parameters, double lr,
                     double weight_decay)
    : name_(name), lr_(lr) {
  for (const ParameterGroup& group : parameters.groups()) {
    for (const NamedTensor& parameter : group.parameters) add(parameter, groups_.size());
    groups_.push_back({group.weight_decay.value_or(weight_decay), group.lr_scale});
  }
}

void Optimizer::add(const NamedTensor& parameter, std::size_t group) {
  const std::string text = "parameter \"" + parameter.name + "\"";
  if (!parameter.tensor.defined() || !parameter.tensor.is_leaf())
    throw ValueError(name_, text + " " + describe(parameter.tensor) + " is no leaf");
  for (const Entry& entry : entries_)
    if (entry.parameter.is_same(parameter.tensor) || entry.name == parameter.name)
      throw ValueError(name_, text + " is given twice");
  entries_.push_back({parameter.name, parameter.tensor, group});
}

void Optimizer::set_lr(double lr) {
  check_not_negative(name_, "lr", lr);
  lr_ = lr;
}

void Optimizer::make_slots(Entry& entry) const {
  const Tensor& parameter = entry.parameter;
  while (entry.slots.size() < slot_names().size())
    entry.slots.push_back(
        filled(name_, parameter.shape(), parameter.dtype(), 0, Category::optimizer_state));
}

void Optimizer::step(const Gradients& gradients) {
  std::vector<Entry*> reached;
  for (Entry& entry : entries_) {
    if (!gradients.contains(entry.parameter))
      throw StateError(name_, "parameter \"" + entry.name +
                                  "\" is not among the gradients; a module's parameter that was "
                                  "replaced by another leaf needs a new optimizer");
    if (gradients.reached(entry.parameter)) reached.push_back(&entry);
  }
  // Whatever can fail comes before the first write.
  for (Entry* entry : reached) make_slots(*entry);
  for (Entry* entry : reached) {
    const Group& group = groups_[entry->group];
    ++entry->steps;
    update(*entry, gradients[entry->parameter], lr_ * group.lr_scale, group.weight_decay);
    entry->parameter.storage()->bump_version();
    for (const Tensor& slot : entry->slots) slot.storage()->bump_version();
  }
}

// ---- state ---------------------------------------------------------------------------------------

namespace {

std::string state_name(const std::string& parameter, const std::string& what) {
  return "state." + parameter + "." + what;
}

}  // namespace

std::vector<Optimizer::Number> Optimizer::all_numbers() {
  std::vector<Number> all = numbers();
  all.push_back({"lr", &lr_});
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const std::string group = "group." + std::to_string(i);
    all.push_back({group + ".weight_decay", &groups_[i].weight_decay});
    all.push_back({group + ".lr_scale", &groups_[i].lr_scale});
  }
  return all;
}

StateDict Optimizer::state() {
  StateDict state;
  for (const Number& number : all_numbers())
    state.push_back({number.name, from_vector(std::vector<double>{*number.value}, {})});
  for (const Entry& entry : entries_) {
    const std::vector<std::int64_t> steps{entry.steps};
    state.push_back({state_name(entry.name, "steps"), from_vector(steps, {})});
    if (entry.steps == 0) continue;
    for (std::size_t i = 0; i < entry.slots.size(); ++i)
      state.push_back({state_name(entry.name, slot_names()[i]), entry.slots[i]});
  }
  return state;
}

void Optimizer::load_state(const StateDict& state) {
  const std::vector<Number> numbers = all_numbers();
  std::vector<double> before;
  for (const Number& number : numbers) before.push_back(*number.value);
  try {
    StateReader reader(name_, state);
    for (const Number& number : numbers) {
      const Tensor value = reader.take(number.name, {}, DType::f64);
      if (value.defined()) *number.value = value.item();
    }
    std::vector<Entry> entries = entries_;
    for (Entry& entry : entries) read_entry(reader, entry);
    reader.finish();
    check_all();
    entries_ = std::move(entries);
  } catch (...) {
    for (std::size_t i = 0; i < numbers.size(); ++i) *numbers[i].value = before[i];
    throw;
  }
}

void Optimizer::read_entry(StateReader& reader, Entry& entry) const {
  const std::string steps_name = state_name(entry.name, "steps");
  const Tensor steps = reader.take(steps_name, {}, DType::i64);
  if (!steps.defined()) return;
  entry.steps = steps.item<std::int64_t>();
  entry.slots.clear();
  if (entry.steps < 0) reader.complain(steps_name, "is negative");
  if (entry.steps <= 0) return;
  for (const char* slot_name : slot_names()) {
    const Tensor value = reader.take(state_name(entry.name, slot_name), entry.parameter.shape(),
                                     entry.parameter.dtype());
    if (!value.defined()) return;
    entry.slots.push_back(copied(name_, value));
    entry.slots.back().storage()->set_category(Category::optimizer_state);
  }
}

void Optimizer::check_all() const {
  check_not_negative(name_, "lr", lr_);
  for (const Group& group : groups_) {
    check_not_negative(name_, "weight_decay", group.weight_decay);
    check_not_negative(name_, "lr_scale", group.lr_scale);
  }
  check_numbers();
}

// ---- SGD -----------------------------------------------------------------------------------------

SGD::SGD(const Parameters& parameters, SGDOptions options)
    : Optimizer("SGD", parameters, options.lr, options.weight_decay),
      momentum_(options.momentum),
      nesterov_(options.nesterov) {
  check_all();
}

std::vector<Optimizer::Number> SGD::numbers() {
  return {{"momentum", &momentum_}, {"nesterov", &nesterov_}};
}

void SGD::check_numbers() const {
  check_not_negative(name(), "momentum", momentum_);
  if (nesterov_ != 0 && momentum_ == 0) throw ValueError(name(), "nesterov needs a momentum");
}

std::vector<const char*> SGD::slot_names() const {
  if (momentum_ == 0) return {};
  return {"momentum_buffer"};
}

void SGD::update(const Entry& entry, const Tensor& gradient, double lr,
                 double weight_decay) const {
  const kernels::SgdStep step{lr, momentum_, weight_decay, nesterov_ != 0};
  launch([&] {
    if (entry.slots.empty())
      kernels::sgd(entry.parameter.view(), gradient.view(), step);
    else
      kernels::sgd_with_momentum(entry.parameter.view(), gradient.view(), entry.slots[0].view(),
                                 step);
  });
}

// ---- Adam ----------------------------------------------------------------------------------------

Adam::Adam(const char* name, const Parameters& parameters, const AdamOptions& options,
           bool decoupled)
    : Optimizer(name, parameters, options.lr, options.weight_decay),
      betas_(options.betas),
      eps_(options.eps),
      decoupled_(decoupled) {
  check_all();
}

std::vector<Optimizer::Number> Adam::numbers() {
  return {{"beta1", &betas_[0]}, {"beta2", &betas_[1]}, {"eps", &eps_}};
}

void Adam::check_numbers() const {
  for (const double beta : betas_)
    if (!(beta >= 0 && beta < 1))
      throw ValueError(name(), "beta " + format_number(beta) + " must be in [0, 1)");
  check_not_negative(name(), "eps", eps_);
}

std::vector<const char*> Adam::slot_names() const { return {"exp_avg", "exp_avg_sq"}; }

void Adam::update(const Entry& entry, const Tensor& gradient, double lr,
                  double weight_decay) const {
  const double k = static_cast<double>(entry.steps);
  const kernels::AdamStep step{.lr = lr,
                               .beta1 = betas_[0],
                               .beta2 = betas_[1],
                               .eps = eps_,
                               .weight_decay = weight_decay,
                               .decoupled = decoupled_,
                               .correction1 = 1 - std::pow(betas_[0], k),
                               .correction2 = 1 - std::pow(betas_[1], k)};
  launch([&] {
    kernels::adam(entry.parameter.view(), gradient.view(), entry.slots[0].view(),
                  entry.slots[1].view(), step);
  });
}

// ---- clipping ------------------------------------------------------------------------------------

Tensor clip_grad_norm(Gradients& gradients, double max_norm, bool error_if_nonfinite) {
  const char* const name = "clip_grad_norm";
  if (!(max_norm >= 0))
    throw ValueError(name, "max_norm " + format_number(max_norm) + " must not be negative");
  std::vector<Tensor> reached;
  for (const Tensor& parameter : gradients.of())
    if (gradients.reached(parameter)) reached.push_back(gradients[parameter]);
  Tensor total = empty(name, {}, DType::f64);
  launch([&] {
    double squares = 0;
    for (const Tensor& gradient : reached) squares += kernels::sum_of_squares(gradient.view());
    const double norm = std::sqrt(squares);
    *total.view().as<double>() = norm;
    if (!std::isfinite(norm) && error_if_nonfinite)
      throw ValueError(name, "the norm of the gradients is " + format_number(norm));
    const double factor = max_norm / (norm + 1e-6);
    if (std::isfinite(norm) && factor < 1) gradients *= factor;
  });
  return total;
}

}  // namespace tapehead::nn
