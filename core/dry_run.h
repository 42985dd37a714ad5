// Dry run: the same code without data. While a DryRun lives on a thread, tensors made there have
// shapes, storages and bytes on the books but no memory, and kernels are skipped (see launch below), so
// that shapes, saved tensors, the order of allocations and the peak are those of the real run.
#pragma once

#include <tapehead/core/memory.h>
#include <tapehead/core/thread_scope.h>

#include <memory>

namespace tapehead {

/// Switches the dry run on for this thread until it is destroyed; scopes may be nested. Asking a
/// tensor made in a dry run for values is a StateError, during the run and afterwards.
class DryRun : public ThreadScope<DryRun> {
 public:
  DryRun() : account_(std::make_shared<MemoryAccount>()) {}

  /// Whether a dry run is on for this thread.
  static bool active() { return innermost() != nullptr; }

  /// The account of the innermost dry run on this thread, or null. Each starts at zero.
  static MemoryAccount* account() { return active() ? innermost()->account_.get() : nullptr; }

  /// The same, shared: storages keep their account alive, for they may outlive the scope.
  static std::shared_ptr<MemoryAccount> shared_account() {
    return active() ? innermost()->account_ : nullptr;
  }

 private:
  std::shared_ptr<MemoryAccount> account_;
};

/// Runs a kernel unless this is a dry run. Every kernel call of every operation stands inside one
/// `launch`, so this is the one place where data and bookkeeping part.
template <class Kernel>
void launch(Kernel&& kernel) {
  if (!DryRun::active()) kernel();
}

}  // namespace tapehead
