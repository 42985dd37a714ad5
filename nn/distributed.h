// DataParallel: one model on every rank of a group, each with data of its own, kept equal by
// averaging the gradients.
//
//     nn::MpiGroup group;
//     nn::DataParallel parallel(model, group);   // rank 0's values, everywhere
//     ...
//     Tape tape;
//     const Tensor loss = cross_entropy(model(x), target);    // x, target: this rank's part
//     optimizer.step(parallel.gradient(tape, loss));          // the same step on every rank
//
// Gradients travel in buckets, in the order in which the reverse walk completes them: as soon as
// all of a bucket are there its all-reduce starts, and goes on while the walk does. The buckets are
// laid out once, from the use of the parameters on rank 0's first tape, so a run is the same, bit
// for bit, whenever it has the same number of ranks.
#pragma once

#include <tapehead/core/gradients.h>
#include <tapehead/nn/module.h>
#include <tapehead/nn/process_group.h>

#include <memory>
#include <span>
#include <unordered_map>

namespace tapehead::nn {

/// How gradients travel.
struct DataParallelOptions {
  /// A bucket holds so much, or one tensor that is larger. Small ones are on their way earlier,
  /// large ones cost fewer messages.
  std::int64_t bucket_bytes = 1 << 20;
};

/// A gradient as its bucket sees it.
struct Parcel {
  DType dtype = DType::f32;  ///< of its elements
  std::int64_t bytes = 0;    ///< of all of them
};

/// Which gradients travel together: in order, as many as fit in `bucket_bytes`, at least one, and
/// of one dtype. The positions of each bucket.
std::vector<std::vector<std::size_t>> fill_buckets(std::span<const Parcel> parcels,
                                                   std::int64_t bucket_bytes);

/// Gives the tensors of every rank the values that those of rank 0 have. Collective; the lists have
/// the same shapes and dtypes in the same order on all ranks, which is not checked.
void broadcast(const StateDict& tensors, ProcessGroup& group);

/// A module whose copies on all ranks of a group are kept equal.
class DataParallel {
 public:
  /// Collective, as gradient() is. Gives rank 0's values to the module's parameters on every rank.
  /// The group outlives this. StateError, on all ranks alike, when they have other parameters:
  /// another version of the library, other names, dtypes or shapes, or another order.
  /// ValueError: bucket_bytes not positive.
  DataParallel(const Module& module, ProcessGroup& group, DataParallelOptions options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// The gradients of y with respect to all parameters of the module, the mean over the ranks: that
  /// of the mean of all their y. A parameter that y reaches on one rank is reached on every one;
  /// a rank where it is not counts as 0. Consumes the record, and has the errors, of Tape::gradient
  /// without a seed. RankLostError; StateError after a call that ended with an error, for the ranks
  /// are out of step then.
  Gradients gradient(Tape& tape, const Tensor& y);

  /// What gradient() has cost.
  struct Traffic {
    std::int64_t calls = 0;     ///< so far; none are counted in a group of one
    std::int64_t buckets = 0;   ///< of one call
    std::int64_t bytes = 0;     ///< that the buckets of one call hold
    double waited_seconds = 0;  ///< after the walks: communication that they did not hide
  };
  /// Of the calls so far.
  const Traffic& traffic() const { return traffic_; }

 private:
  struct Bucket;
  class Step;

  void lay_out(const Tape& tape);

  StateDict parameters_;
  ProcessGroup& group_;
  const DataParallelOptions options_;
  std::vector<Bucket> buckets_;  // none before the first call
  struct Place {
    std::size_t bucket = 0, position = 0;
  };
  std::unordered_map<const detail::TensorImpl*, Place> places_;  // of the parameters in the buckets
  bool out_of_step_ = false;
  Traffic traffic_;
};

}  // namespace tapehead::nn
