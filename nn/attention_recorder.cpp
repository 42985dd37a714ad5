#include <tapehead/core/scope.h>
#include <tapehead/nn/attention_recorder.h>

namespace tapehead::nn {

void AttentionRecorder::record(const Tensor& weights, const Tensor& hidden) {
  if (active()) innermost()->maps_.push_back({ModuleScope::path(), weights.detach(), hidden});
}

}  // namespace tapehead::nn
