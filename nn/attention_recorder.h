// AttentionRecorder: the weights and the mask of every attention module that runs while it lives,
// for looking at what the heads of a model attend to, and at what they may.
//
//     nn::AttentionRecorder recorder;
//     model(tokens);
//     for (const auto& [module, weights, hidden] : recorder.maps()) ...
//
// Results, and what the backward pass saves, stay what they are, on every path: the weights are
// computed beside. They stay in memory. Each thread has its own recorder; of nested ones the
// innermost records.
#pragma once

#include <tapehead/core/tape.h>
#include <tapehead/core/tensor.h>
#include <tapehead/core/thread_scope.h>

#include <string>
#include <vector>

namespace tapehead::nn {

/// The weights of one call of an attention module.
struct AttentionMap {
  std::string module;  ///< its path: "layers.0.self_attn"
  Tensor weights;      ///< (N, heads, L, S), before dropout: rows sum to 1, or are 0; a constant
  /// True where the mask hides a key: bool, broadcasts to the weights. Undefined: nothing hidden.
  Tensor hidden = {};
};

/// Writes down what the attention modules of this thread attend to, while it lives.
class AttentionRecorder : public ThreadScope<AttentionRecorder> {
 public:
  /// In the order of the calls.
  const std::vector<AttentionMap>& maps() const { return maps_; }

  /// @{
  /// For attention modules: whether a recorder lives on this thread, outside any gradient call
  /// (what a checkpoint computes again was recorded before), and handing it weights and what their
  /// mask hides, if it does.
  static bool active() { return innermost() != nullptr && !Tape::walking(); }
  static void record(const Tensor& weights, const Tensor& hidden = {});
  /// @}

 private:
  std::vector<AttentionMap> maps_;
};

}  // namespace tapehead::nn
