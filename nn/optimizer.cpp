#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/ledger.h>
#include <tapehead/nn/check.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/nn/state_reader.h>
#include <tapehead/ops/kernels/optimizer.h>

#include <cmath>

namespace tapehead::nn {

// ---- what to step ------------------------------------------------------------------------------

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

// ---- Optimizer ---------------------------------------------------------------------------------

namespace {

std::string group_number(std::size_t group, const char* what) {
  return "group." + std::to_string(group) + "." + what;
}

std::string entry_state(const std::string& parameter, const std::string& what) {
  return "state." + parameter + "." + what;
}

}  // namespace

Optimizer::Optimizer(const char* name, const Parameters& parameters, double lr, double weight_decay,
                     Numbers numbers)
    : name_(name), numbers_(std::move(numbers)) {
  numbers_["lr"] = lr;
  for (std::size_t i = 0; i < parameters.groups().size(); ++i) {
    const ParameterGroup& group = parameters.groups()[i];
    numbers_[group_number(i, "lr_scale")] = group.lr_scale;
    numbers_[group_number(i, "weight_decay")] = group.weight_decay.value_or(weight_decay);
    for (const NamedTensor& parameter : group.parameters) add(parameter, i);
  }
}

void Optimizer::add(const NamedTensor& parameter, std::size_t group) {
  const std::string text = "parameter \"" + parameter.name + "\"";
  if (!parameter.tensor.defined() || !parameter.tensor.is_leaf())
    throw ValueError(name_, text + " " + describe(parameter.tensor) + " is no leaf");
  check_computes(name_, text, parameter.tensor);
  if (is_expanded(parameter.tensor))
    throw ValueError(name_, text + " " + describe(parameter.tensor) +
                                " is expanded: more than one element stands in one place; make the "
                                "parameter from a clone()");
  for (const Entry& entry : entries_)
    if (entry.parameter.is_same(parameter.tensor) || entry.name == parameter.name)
      throw ValueError(name_, text + " is given twice");
  entries_.push_back({parameter.name, parameter.tensor, group});
}

void Optimizer::check_all(const Numbers& numbers) const {
  for (const auto& [name, value] : numbers) check_not_negative(name_, name, value);
  check(numbers);
}

void Optimizer::set_lr(double lr) {
  check_not_negative(name_, "lr", lr);
  numbers_["lr"] = lr;
}

// With those that are not there yet.
std::vector<Tensor> Optimizer::slots_of(const Entry& entry) const {
  const Tensor& parameter = entry.parameter;
  std::vector<Tensor> slots = entry.slots;
  while (slots.size() < slot_names(numbers_).size())
    slots.push_back(
        filled(name_, parameter.shape(), parameter.dtype(), 0, Category::optimizer_state));
  return slots;
}

void Optimizer::step(const Gradients& gradients) {
  struct Planned {
    Entry& entry;
    std::vector<Tensor> slots;
    double lr, weight_decay;
  };
  std::vector<Planned> planned;  // whatever can fail comes before the first write
  for (Entry& entry : entries_) {
    if (!gradients.contains(entry.parameter))
      throw StateError(name_, "parameter \"" + entry.name +
                                  "\" is not among the gradients; a module's parameter that was "
                                  "replaced by another leaf needs a new optimizer");
    if (gradients.reached(entry.parameter))
      planned.push_back({entry, slots_of(entry),
                         lr() * number(group_number(entry.group, "lr_scale")),
                         number(group_number(entry.group, "weight_decay"))});
  }
  for (Planned& plan : planned) {
    Entry& entry = plan.entry;
    entry.slots = std::move(plan.slots);
    ++entry.steps;
    update(entry, gradients[entry.parameter], plan.lr, plan.weight_decay);
    entry.parameter.storage()->bump_version();
    for (const Tensor& slot : entry.slots) slot.storage()->bump_version();
    if (!Ledger::watching()) continue;
    // The state may be older than the ledger: setting its category again makes the ledger know it.
    for (const Tensor& slot : entry.slots) slot.storage()->set_category(Category::optimizer_state);
    Ledger::end_step(Graph::Phase::update, name_, entry.name);
  }
}

StateDict Optimizer::state() const {
  StateDict state;
  for (const auto& [name, value] : numbers_)
    state.push_back({name, from_vector(std::vector<double>{value}, {})});
  const std::vector<const char*> slots = slot_names(numbers_);
  for (const Entry& entry : entries_) {
    const std::vector<std::int64_t> steps{entry.steps};
    state.push_back({entry_state(entry.name, "steps"), from_vector(steps, {})});
    if (entry.steps == 0) continue;
    for (std::size_t i = 0; i < slots.size(); ++i)
      state.push_back({entry_state(entry.name, slots[i]), entry.slots[i]});
  }
  return state;
}

void Optimizer::load_state(const StateDict& state) {
  StateReader reader(name_, state);
  Numbers numbers = numbers_;
  for (auto& [name, value] : numbers) {
    const Tensor loaded = reader.take(name, {}, DType::f64);
    if (loaded.defined()) value = loaded.item();
  }
  std::vector<Entry> entries = entries_;
  for (Entry& entry : entries) read_entry(reader, numbers, entry);
  reader.finish();
  check_all(numbers);
  numbers_ = std::move(numbers);
  entries_ = std::move(entries);
}

// Moments are copied: those of the caller may be written to, or belong to another optimizer.
void Optimizer::read_entry(StateReader& reader, const Numbers& numbers, Entry& entry) const {
  const std::string steps_name = entry_state(entry.name, "steps");
  const Tensor steps = reader.take(steps_name, {}, DType::i64);
  if (!steps.defined()) return;
  entry.steps = steps.item<std::int64_t>();
  entry.slots.clear();
  if (entry.steps < 0) reader.complain(steps_name, "is negative");
  if (entry.steps <= 0) return;
  for (const char* slot_name : slot_names(numbers)) {
    const Tensor value = reader.take(entry_state(entry.name, slot_name), entry.parameter.shape(),
                                     entry.parameter.dtype());
    if (!value.defined()) continue;
    entry.slots.push_back(copied(name_, value));
    entry.slots.back().storage()->set_category(Category::optimizer_state);
  }
}

// ---- SGD ---------------------------------------------------------------------------------------

SGD::SGD(const Parameters& parameters, SGDOptions options)
    : Optimizer("SGD", parameters, options.lr, options.weight_decay,
                {{"momentum", options.momentum}, {"nesterov", options.nesterov}}) {
  check_all();
}

void SGD::check(const Numbers& numbers) const {
  if (numbers.at("nesterov") != 0 && numbers.at("momentum") == 0)
    throw ValueError(name(), "nesterov needs a momentum");
}

std::vector<const char*> SGD::slot_names(const Numbers& numbers) const {
  if (numbers.at("momentum") == 0) return {};
  return {"momentum_buffer"};
}

void SGD::update(const Entry& entry, const Tensor& gradient, double lr, double weight_decay) const {
  const kernels::SgdStep step{.lr = lr,
                              .momentum = number("momentum"),
                              .weight_decay = weight_decay,
                              .nesterov = number("nesterov") != 0};
  launch([&] {
    if (entry.slots.empty()) kernels::sgd(entry.parameter.view(), gradient.view(), step);
    else
      kernels::sgd_with_momentum(entry.parameter.view(), gradient.view(), entry.slots[0].view(),
                                 step);
  });
}

// ---- Adam --------------------------------------------------------------------------------------

Adam::Adam(const char* name, const Parameters& parameters, const AdamOptions& options,
           bool decoupled)
    : Optimizer(name, parameters, options.lr, options.weight_decay,
                {{"beta1", options.betas[0]}, {"beta2", options.betas[1]}, {"eps", options.eps}}),
      decoupled_(decoupled) {
  check_all();
}

void Adam::check(const Numbers& numbers) const {
  for (const char* beta : {"beta1", "beta2"})
    if (numbers.at(beta) >= 1)
      throw ValueError(
          name(), std::string(beta) + " " + format_number(numbers.at(beta)) + " must be below 1");
}

std::vector<const char*> Adam::slot_names(const Numbers&) const {
  return {"exp_avg", "exp_avg_sq"};
}

void Adam::update(const Entry& entry, const Tensor& gradient, double lr,
                  double weight_decay) const {
  const double beta1 = number("beta1"), beta2 = number("beta2");
  const double k = static_cast<double>(entry.steps);
  const kernels::AdamStep step{.lr = lr,
                               .beta1 = beta1,
                               .beta2 = beta2,
                               .eps = number("eps"),
                               .weight_decay = weight_decay,
                               .decoupled = decoupled_,
                               .correction1 = 1 - std::pow(beta1, k),
                               .correction2 = 1 - std::pow(beta2, k)};
  launch([&] {
    kernels::adam(entry.parameter.view(), gradient.view(), entry.slots[0].view(),
                  entry.slots[1].view(), step);
  });
}

// ---- clipping ----------------------------------------------------------------------------------

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
    reached.clear();  // these handles would make *= copy
    const double factor = max_norm / (norm + 1e-6);
    if (std::isfinite(norm) && factor < 1) gradients *= factor;
  });
  return total;
}

}  // namespace tapehead::nn
