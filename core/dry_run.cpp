#include <tapehead/core/dry_run.h>

namespace tapehead {

thread_local constinit DryRun* DryRun::current_ = nullptr;

DryRun::DryRun() : outer_(current_), account_(std::make_shared<MemoryAccount>()) {
  current_ = this;
}

DryRun::~DryRun() { current_ = outer_; }

}  // namespace tapehead
