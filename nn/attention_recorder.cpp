#include <tapehead/core/scope.h>
#include <tapehead/nn/attention_recorder.h>

namespace tapehead::nn {

void AttentionRecorder::record(const Tensor& weights) {
  if (active()) innermost()->maps_.push_back({ModuleScope::path(), weights.detach()});
}

}  // namespace tapehead::nn
