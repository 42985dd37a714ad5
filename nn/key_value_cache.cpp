#include <tapehead/core/error.h>
#include <tapehead/core/tape.h>
#include <tapehead/nn/key_value_cache.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <algorithm>

namespace tapehead::nn {

namespace {

constexpr const char* op = "KeyValueCache";
constexpr int time_dim = 2;

std::int64_t room_of(const Tensor& buffer) { return buffer.size(time_dim); }

void check_pair(const Tensor& keys, const Tensor& values) {
  check_defined(op, "keys", keys);
  check_defined(op, "values", values);
  bool fit = keys.rank() == 4 && values.rank() == 4;
  for (int i = 0; fit && i <= time_dim; ++i) fit = keys.size(i) == values.size(i);
  if (!fit)
    throw ShapeError(op, "keys " + describe(keys) + " and values " + describe(values) +
                             ": both must be (N, heads, time, features), alike but for features");
  check_same_dtype(op, keys, values, "keys", "values");
}

// That `more` continues what the cache holds.
void check_continues(const char* name, const Tensor& more, const Tensor& buffer) {
  Shape expected = buffer.shape();
  expected[time_dim] = more.size(time_dim);
  if (more.shape() != expected)
    throw ShapeError(op, std::string(name) + " " + describe(more) + " must be " +
                             to_string(expected) + ", as those before");
  check_dtype(op, name, more, buffer.dtype());
}

// A buffer with room for `room` positions, the first `used` of which are `old`'s.
Tensor grown(const Tensor& old, std::int64_t used, const Tensor& like, std::int64_t room) {
  Shape shape = like.shape();
  shape[time_dim] = room;
  const Tensor buffer = empty(op, shape, like.dtype());
  if (used > 0) copy_(narrow(buffer, time_dim, 0, used), narrow(old, time_dim, 0, used));
  return buffer;
}

void write(const Tensor& buffer, std::int64_t at, const Tensor& more) {
  copy_(narrow(buffer, time_dim, at, more.size(time_dim)), more.detach());
}

}  // namespace

KeyValueCache::KeyValueCache(const KeyValueCache& other) : size_(other.size_) {
  if (size_ == 0) return;
  keys_ = grown(other.keys_, size_, other.keys_, room_of(other.keys_));
  values_ = grown(other.values_, size_, other.values_, room_of(other.values_));
}

KeyValueCache& KeyValueCache::operator=(KeyValueCache other) noexcept {
  keys_ = std::move(other.keys_);
  values_ = std::move(other.values_);
  size_ = other.size_;
  return *this;
}

KeyValueCache::Seen KeyValueCache::append(const Tensor& keys, const Tensor& values) {
  if (Tape::recording())
    throw StateError(op,
                     "a tape is recording, and no gradient flows through a cache: decode "
                     "without a tape or under Tape::Pause");
  check_pair(keys, values);
  if (size_ > 0) {
    check_continues("keys", keys, keys_);
    check_continues("values", values, values_);
  }
  const std::int64_t size = size_ + keys.size(time_dim);
  if (size_ == 0 || size > room_of(keys_)) {
    const std::int64_t room = std::max(size, 2 * size_);
    Tensor more_keys = grown(keys_, size_, keys, room);
    values_ = grown(values_, size_, values, room);
    keys_ = std::move(more_keys);
  }
  write(keys_, size_, keys);
  write(values_, size_, values);
  size_ = size;
  return {narrow(keys_, time_dim, 0, size), narrow(values_, time_dim, 0, size)};
}

void KeyValueCache::truncate(std::int64_t size) {
  if (size < 0 || size > size_)
    throw IndexError(
        op, "truncate to " + std::to_string(size) + " of " + std::to_string(size_) + " positions");
  size_ = size;
}

}  // namespace tapehead::nn
