// Two ready saved-tensor hooks: less memory for what the backward pass keeps, in exchange for
// precision or time.
//
//     Tape tape;
//     Tensor y;
//     {
//       const nn::KeepInBf16 hooks;
//       y = model(x);
//     }
//     tape.gradient(loss(y), parameters);
//
// Both take activations: floating f32 and f64 tensors that an operation made. Parameters, their
// views and inputs stay as they are, for they are there anyway. An activation that somebody holds a
// handle to is packed all the same, which saves nothing.
#pragma once

#include <tapehead/core/saved_hooks.h>

#include <filesystem>
#include <memory>

namespace tapehead::nn {

/// Keeps activations in bf16: half the bytes of f32, a quarter of f64. What a rule reads has 8
/// significant bits, a relative error of 2^-9; where a rule subtracts a mean from it, that is of
/// the value and not of the difference. Slots that are Saved::Exact stay as they are: statistics of
/// rows, and what a loss or logsumexp takes exponentials of. Fused attention takes exponentials of
/// products of q and k: the error there is 2^-9 times the size of the scores. An f64 or f32 beyond
/// bf16's largest number (3.39e38) reads as an infinity.
class KeepInBf16 final : public SavedTensorHooks {
 public:
  std::unique_ptr<PackedTensor> pack(const SavedInfo& info, const Tensor& x) override;
};

/// Keeps activations in a file in `folder`, bit for bit. The file has no name: the system removes
/// it when the last tensor in it is gone, also when the process is killed. Space on the disk is
/// given back as tensors are let go (on Linux). IoError, naming the folder: the file cannot be made
/// or, from operations and gradient calls, not be written (the disk is full) or read. A dry run
/// writes nothing.
class KeepOnDisk final : public SavedTensorHooks {
 public:
  /// Makes the file in `folder`. IoError.
  explicit KeepOnDisk(const std::filesystem::path& folder);
  ~KeepOnDisk() override;
  std::unique_ptr<PackedTensor> pack(const SavedInfo& info, const Tensor& x) override;

 private:
  class File;
  class OnDisk;
  std::shared_ptr<File> file_;
};

}  // namespace tapehead::nn
