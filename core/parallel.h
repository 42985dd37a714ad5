// Threads inside an operation: OpenMP below one function, so that nobody else knows of it.
//
// OpenBLAS runs single-threaded under our own split (its thread count, the one process-wide setting
// that the library touches, is put to 1 at the first matrix product).
#pragma once

#include <tapehead/core/thread_scope.h>

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tapehead {

/// Threads that operations started by the calling thread may use. The default is the number of
/// cores; a ThreadBudget on the calling thread goes before the process-wide number.
int num_threads();

/// Sets the process-wide number; ValueError unless positive.
void set_num_threads(int count);

/// Bounds the threads of operations started by this thread while it lives, so that user threads
/// that train side by side share the cores.
class ThreadBudget : public ThreadScope<ThreadBudget> {
 public:
  /// ValueError unless positive.
  explicit ThreadBudget(int count);

 private:
  friend int num_threads();

  const int count_;
};

/// A non-owning reference to a callable; valid while the callable lives.
template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // NOLINT: implicit by design, it stands for the callable
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(args...);
        }) {}
  R operator()(Args... args) const { return call_(object_, args...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

/// Items below which a second thread does not pay: at a few additions for each,
inline constexpr std::int64_t cheap_grain = 16384;
/// and at an exponential for each.
inline constexpr std::int64_t costly_grain = 4096;

/// Calls body(begin, end) on disjoint ranges that cover [0, count), on several threads when there
/// are more than `grain` items for each. The body must not throw. Which ranges there are depends on
/// the number of threads, so a body's result for an item must not depend on its range.
void parallel_for(std::int64_t count, std::int64_t grain,
                  FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

}  // namespace tapehead
