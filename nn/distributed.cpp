#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/version.h>
#include <tapehead/nn/check.h>
#include <tapehead/nn/distributed.h>
#include <tapehead/ops/write.h>

#include <chrono>
#include <numeric>

namespace tapehead::nn {
namespace {

constexpr const char* operation = "DataParallel";

// What all ranks must have in common.
std::vector<std::string> description(const StateDict& parameters, std::int64_t bucket_bytes) {
  std::vector<std::string> lines{"version " + std::to_string(TAPEHEAD_VERSION) + " of tapehead",
                                 "buckets of " + std::to_string(bucket_bytes) + " bytes"};
  for (const NamedTensor& entry : parameters)
    lines.push_back(entry.name + " " + describe(entry.tensor));
  return lines;
}

// The order in which a walk of the tape completes the parameters' gradients, as positions among
// them; those that the tape does not use are the last.
std::vector<std::int32_t> order_of_completion(const StateDict& parameters, const Tape& tape) {
  std::unordered_map<const detail::TensorImpl*, std::int32_t> unused;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    unused.emplace(parameters[i].tensor.impl(), static_cast<std::int32_t>(i));
  std::vector<std::int32_t> order;
  for (auto leaf = tape.leaves().rbegin(); leaf != tape.leaves().rend(); ++leaf)
    if (const auto found = unused.find(leaf->impl()); found != unused.end()) {
      order.push_back(found->second);
      unused.erase(found);
    }
  for (std::size_t i = parameters.size(); i-- > 0;)
    if (unused.contains(parameters[i].tensor.impl())) order.push_back(static_cast<std::int32_t>(i));
  return order;
}

}  // namespace

std::vector<std::vector<std::size_t>> fill_buckets(std::span<const Parcel> parcels,
                                                   std::int64_t bucket_bytes) {
  std::vector<std::vector<std::size_t>> buckets;
  std::int64_t room = 0;
  for (std::size_t i = 0; i < parcels.size(); ++i) {
    const auto [dtype, bytes] = parcels[i];
    const bool fits = i > 0 && bytes <= room && dtype == parcels[i - 1].dtype;
    if (!fits) {
      buckets.emplace_back();
      room = bucket_bytes;
    }
    buckets.back().push_back(i);
    room -= bytes;
  }
  return buckets;
}

void broadcast(const StateDict& tensors, ProcessGroup& group) {
  for (const NamedTensor& entry : tensors) {
    const Tensor values = copied(operation, entry.tensor);  // row-major
    group.broadcast(values.any_view().bytes());
    copy_(entry.tensor, values);
  }
}

// The gradients of some parameters, side by side in one buffer, and after them a number for each:
// whether this rank's y reached it, and so, when summed, how many did.
struct DataParallel::Bucket {
  explicit Bucket(std::vector<Tensor> tensors) : parameters(std::move(tensors)) {
    for (const Tensor& parameter : parameters) elements += parameter.numel();
    const auto count = static_cast<std::int64_t>(parameters.size());
    buffer = empty(operation, {elements + count}, parameters[0].dtype(), Category::gradient);
    std::int64_t offset = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const Shape& shape = parameters[static_cast<std::size_t>(i)].shape();
      gradients.push_back(alias(buffer, shape, contiguous_strides(shape), offset));
      reached.push_back(alias(buffer, {}, {}, elements + i));
      offset += numel(shape);
    }
  }

  void put(std::size_t i, const Tensor& gradient) {
    fill_(reached[i], gradient.defined() ? 1 : 0);
    if (gradient.defined()) copy_(gradients[i], gradient);
    else fill_(gradients[i], 0);
  }

  std::vector<Tensor> parameters;
  std::int64_t elements = 0;
  Tensor buffer;
  std::vector<Tensor> gradients, reached;  // windows on the buffer
};

// One call of gradient(). All ranks start the buckets in one order, that of the list, whatever
// their walks complete first.
class DataParallel::Step {
 public:
  explicit Step(DataParallel& parallel)
      : group_(parallel.group_), buckets_(parallel.buckets_), places_(parallel.places_) {
    for (const Bucket& bucket : buckets_) missing_.push_back(bucket.parameters.size());
  }

  void complete(const Tensor& parameter, const Tensor& gradient) {
    const auto [b, i] = places_.at(parameter.impl());
    buckets_[b].put(i, gradient);
    --missing_[b];
    while (works_.size() < buckets_.size() && missing_[works_.size()] == 0)
      works_.push_back(group_.all_reduce(buckets_[works_.size()].buffer));
    for (const std::unique_ptr<Work>& work : works_) work->done();
  }

  // The sums, in the buffers of this rank's own gradients where it has them.
  Gradients finish(const Gradients& own, double& waited_seconds) {
    Gradients sums;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const auto start = std::chrono::steady_clock::now();
      works_[b]->wait();
      waited_seconds +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      for (std::size_t i = 0; i < buckets_[b].parameters.size(); ++i)
        take(buckets_[b], i, own, sums);
    }
    return sums;
  }

 private:
  static void take(const Bucket& bucket, std::size_t i, const Gradients& own, Gradients& sums) {
    const Tensor& parameter = bucket.parameters[i];
    Tensor sum;
    if (bucket.reached[i].item() > 0) {
      sum = own[parameter];  // zeros of their own where only other ranks reached it
      copy_(sum, bucket.gradients[i]);
    }
    sums.insert(parameter, std::move(sum));
  }

  ProcessGroup& group_;
  std::vector<Bucket>& buckets_;
  const std::unordered_map<const detail::TensorImpl*, Place>& places_;
  std::vector<std::size_t> missing_;  // parameters of a bucket that are not complete
  std::vector<std::unique_ptr<Work>> works_;
};

DataParallel::DataParallel(const Module& module, ProcessGroup& group, DataParallelOptions options)
    : parameters_(module.named_parameters()), group_(group), options_(options) {
  check_positive(operation, "bucket_bytes", options.bucket_bytes);
  check_agreement(group, operation, description(parameters_, options.bucket_bytes));
  if (group.size() == 1) return;
  broadcast(parameters_, group);
}

DataParallel::~DataParallel() = default;

void DataParallel::lay_out(const Tape& tape) {
  std::vector<std::int32_t> order = order_of_completion(parameters_, tape);
  group_.broadcast(std::as_writable_bytes(std::span(order)));
  std::vector<Tensor> sorted;
  std::vector<Parcel> parcels;
  for (const std::int32_t i : order) {
    sorted.push_back(parameters_[static_cast<std::size_t>(i)].tensor);
    parcels.push_back({sorted.back().dtype(), sorted.back().nbytes()});
  }
  for (const std::vector<std::size_t>& bucket : fill_buckets(parcels, options_.bucket_bytes)) {
    std::vector<Tensor> tensors;
    for (const std::size_t i : bucket) {
      places_[sorted[i].impl()] = {buckets_.size(), tensors.size()};
      tensors.push_back(sorted[i]);
    }
    buckets_.emplace_back(std::move(tensors));
    traffic_.bytes += buckets_.back().buffer.nbytes();
  }
  traffic_.buckets = std::ssize(buckets_);
}

Gradients DataParallel::gradient(Tape& tape, const Tensor& y) {
  std::vector<Tensor> parameters;
  for (const NamedTensor& entry : parameters_) parameters.push_back(entry.tensor);
  if (group_.size() == 1 || y.numel() != 1) return tape.gradient(y, parameters);
  if (out_of_step_)
    throw StateError(operation,
                     "an earlier gradient() ended with an error, so the ranks are out "
                     "of step");
  out_of_step_ = true;
  if (buckets_.empty()) lay_out(tape);
  Step step(*this);
  const LeafHook hook = [&](const Tensor& parameter, const Tensor& gradient) {
    step.complete(parameter, gradient);
  };
  // Each rank's part of the mean, so that the sums need no division.
  const Tensor seed = filled(operation, y.shape(), y.dtype(), 1.0 / group_.size());
  const Gradients own = tape.gradient(y, parameters, seed, {.on_complete = hook});
  const Tape::Pause pause;
  Gradients means = step.finish(own, traffic_.waited_seconds);
  ++traffic_.calls;
  out_of_step_ = false;
  return means;
}

}  // namespace tapehead::nn
