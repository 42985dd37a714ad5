// What can be chosen for a planned step, by the names that its options take and its reports print.
#pragma once

#include <tapehead/nn/gpt.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "plan.h"

namespace tapehead::program {

template <class T>
struct Choice {
  std::string_view option;
  T value;
  std::string_view printed = option;
};

template <class T, std::size_t n>
using Choices = std::array<Choice<T>, n>;

inline constexpr Choices<DType, 4> dtypes = {{{to_string(DType::f32), DType::f32},
                                              {to_string(DType::f64), DType::f64},
                                              {to_string(DType::bf16), DType::bf16},
                                              {to_string(DType::f16), DType::f16}}};
inline constexpr Choices<nn::AttentionPath, 2> attention_paths = {
    {{"composed", nn::AttentionPath::composed}, {"fused", nn::AttentionPath::fused}}};
inline constexpr Choices<nn::Checkpointed, 3> checkpoints = {
    {{"none", nn::Checkpointed::none},
     {"block", nn::Checkpointed::block},
     {"attention", nn::Checkpointed::attention}}};
inline constexpr Choices<PlanOptimizer, 2> optimizers = {
    {{"sgd", PlanOptimizer::sgd, "SGD"}, {"adamw", PlanOptimizer::adamw, "AdamW"}}};

/// What reports print for one of the choices.
template <class T, std::size_t n>
std::string printed(const Choices<T, n>& choices, T value) {
  return std::string(std::ranges::find(choices, value, &Choice<T>::value)->printed);
}

}  // namespace tapehead::program
