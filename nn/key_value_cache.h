// KeyValueCache: the keys and values of the positions that an attention layer has seen, so that the
// next token costs one query and not the whole sequence again. One for each layer and sequence (or
// batch of sequences). For inference: no gradient flows through it. One thread at a time.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead::nn {

/// What one attention layer has seen of a sequence, or of a batch of them.
class KeyValueCache {
 public:
  KeyValueCache() = default;
  /// A copy has a buffer of its own: sequences may branch from it.
  KeyValueCache(const KeyValueCache& other);
  /// Takes the buffer over.
  KeyValueCache(KeyValueCache&&) = default;
  /// The same for assignment: copies, or takes over what is moved in.
  KeyValueCache& operator=(KeyValueCache other) noexcept;

  /// All that was seen, as views of the cache: (N, heads, size, features). Good until the next
  /// append or truncate: after truncate(), positions are written anew where these views may look.
  struct Seen {
    Tensor keys;    ///< features as append() was given
    Tensor values;  ///< the same
  };

  /// The number of positions: the position of the token that comes next.
  std::int64_t size() const { return size_; }

  /// Copies t more positions, keys (N, heads, t, E) and values (N, heads, t, F), behind the others.
  /// Room is doubled when it runs out, so that n tokens cost O(n) copying.
  /// ShapeError: not four dims, N, heads or t differ, or another shape than before but for t.
  /// DTypeError: another dtype than before. StateError: a tape is recording.
  Seen append(const Tensor& keys, const Tensor& values);

  /// Forgets the positions from `size` on; truncate(0) starts anew, and then any shape will do.
  /// IndexError: outside [0, size()].
  void truncate(std::int64_t size);

 private:
  Tensor keys_, values_;  // (N, heads, room, features), of which size_ positions are in use
  std::int64_t size_ = 0;
};

}  // namespace tapehead::nn
