// AttentionRecorder: the weights of every attention module that runs while it lives, for looking at
// what the heads of a model attend to.
//
//     nn::AttentionRecorder recorder;
//     model(tokens);
//     for (const auto& [module, weights] : recorder.maps()) ...
//
// Results stay what they are, but attention is composed while a recorder lives, also where the
// fused path was chosen, and the weights stay in memory. Each thread has its own; of nested ones
// the innermost records.
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
};

class AttentionRecorder : public ThreadScope<AttentionRecorder> {
 public:
  /// In the order of the calls.
  const std::vector<AttentionMap>& maps() const { return maps_; }

  /// For attention modules: whether a recorder lives on this thread, outside any gradient call
  /// (what a checkpoint computes again was recorded before), and handing weights to it, if it does.
  static bool active() { return innermost() != nullptr && !Tape::walking(); }
  static void record(const Tensor& weights);

 private:
  std::vector<AttentionMap> maps_;
};

}  // namespace tapehead::nn
