#include <tapehead/core/scope.h>
#include <tapehead/nn/attention_recorder.h>

#include <utility>

namespace tapehead::nn {

namespace {

thread_local AttentionRecorder* innermost = nullptr;

}  // namespace

AttentionRecorder::AttentionRecorder() : outer_(std::exchange(innermost, this)) {}

AttentionRecorder::~AttentionRecorder() { innermost = outer_; }

bool AttentionRecorder::active() { return innermost != nullptr; }

void AttentionRecorder::record(const Tensor& weights) {
  if (innermost) innermost->maps_.push_back({ModuleScope::path(), weights.detach()});
}

}  // namespace tapehead::nn
