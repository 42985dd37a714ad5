// Reference-counted handles for the objects that every operation makes: the count sits in the
// object (no second allocation), and objects come from thread-local pools (pool.h). Internal.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tapehead {

/// Base of objects held by IntrusivePtr. Counting is atomic: handles may be copied on any thread.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void retain() const { references_.fetch_add(1, std::memory_order_relaxed); }
  /// True when the last reference is gone and the caller must delete the object.
  bool release() const { return references_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  std::uint32_t use_count() const { return references_.load(std::memory_order_acquire); }

 private:
  mutable std::atomic<std::uint32_t> references_{0};
};

template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  explicit IntrusivePtr(T* object) : object_(object) {
    if (object_) object_->retain();
  }
  IntrusivePtr(const IntrusivePtr& other) : IntrusivePtr(other.object_) {}
  IntrusivePtr(IntrusivePtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  IntrusivePtr& operator=(IntrusivePtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~IntrusivePtr() {
    if (object_ && object_->release()) delete object_;
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const IntrusivePtr& other) const { return object_ == other.object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace tapehead
