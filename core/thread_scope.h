// ThreadScope: base of the objects that mean something to their thread while they live, such as
// DryRun and Ledger. Internal.
#pragma once

namespace tapehead {

namespace detail {

/// Says on the standard error why `what` must not be destroyed, and ends the program: a destructor
/// has no other way to report an error, and going on would leave others with a pointer to nothing.
[[noreturn]] void cannot_destroy(const char* what, const char* why) noexcept;

constexpr const char* on_wrong_thread =
    "on another thread than the one that made it, which would go on using it";

}  // namespace detail

/// T derives from ThreadScope<T>. Each thread has a list of its own, the newest object first.
/// Objects may die in any order, on the thread that made them: one on the heap may outlive those
/// around it. On another thread their destruction ends the program (std::terminate).
template <class T>
class ThreadScope {
 public:
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 protected:
  ThreadScope() : outer_(innermost_) { innermost_ = this; }
  ~ThreadScope() {
    ThreadScope** link = &innermost_;
    while (*link && *link != this) link = &(*link)->outer_;
    if (!*link) detail::cannot_destroy("an object of a thread's scope", detail::on_wrong_thread);
    *link = outer_;
  }

  /// The newest that lives on this thread, or null.
  static T* innermost() { return static_cast<T*>(innermost_); }
  /// Whether this thread made the object.
  bool is_on_own_thread() const {
    const ThreadScope* scope = innermost_;
    while (scope && scope != this) scope = scope->outer_;
    return scope;
  }
  /// The next older one that lives, or null.
  T* outer() const { return static_cast<T*>(outer_); }

 private:
  static inline thread_local constinit ThreadScope* innermost_ = nullptr;
  ThreadScope* outer_;
};

}  // namespace tapehead
