// ProcessGroup: the processes ("ranks") that do one piece of work together, and what they tell each
// other. MpiGroup (nn/mpi_group.h) is the one that mpirun starts; OneProcess is the group of a
// process that is alone.
//
// Its operations are collective: every rank calls the same ones in the same order. A group belongs
// to the thread that made it.
#pragma once

#include <tapehead/core/tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::nn {

/// A rank has ended while another one waited for it. Work that was begun together is lost; the
/// group can only be left.
class RankLostError : public StateError {
 public:
  /// `operation` is the one that waited.
  RankLostError(std::string_view operation, int rank);
  /// The one that has ended.
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// An operation that goes on while its caller does something else.
class Work {
 public:
  virtual ~Work() = default;
  /// Whether it is done. Asking now and then is what moves it on.
  virtual bool done() = 0;
  /// Returns when it is done. RankLostError.
  virtual void wait() = 0;
};

/// What this process sees of its group.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// The number of this process, from 0.
  int rank() const { return rank_; }
  /// How many there are.
  int size() const { return size_; }

  /// Starts to replace each element of x, which is contiguous, f32 or f64, by its sum over all
  /// ranks: the same bits on each, and in each run with so many ranks. Nobody looks at x before the
  /// work is done.
  virtual std::unique_ptr<Work> all_reduce(const Tensor& x) = 0;
  /// Replaces the bytes by those of rank 0; there are as many everywhere. RankLostError, here and
  /// in the next.
  virtual void broadcast(std::span<std::byte> bytes) = 0;
  /// The texts of all ranks, by rank.
  virtual std::vector<std::string> all_gather(const std::string& text) = 0;

  /// The cores of this process for it alone: those that it may run on, divided by the number of
  /// ranks that have the same ones.
  virtual int share_of_cores() const = 0;
  /// A rank of this machine that has ended without leaving the group. A signal handler may ask.
  virtual std::optional<int> lost_rank() const { return {}; }
  /// True for the first rank of this machine that asks: when all of them meet with one fault, one
  /// reports it. A signal handler may ask.
  virtual bool is_first_to_report() { return true; }

 protected:
  /// For kinds of groups.
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}

 private:
  const int rank_, size_;
};

/// A group of one, in which everything is done at once.
class OneProcess final : public ProcessGroup {
 public:
  OneProcess() : ProcessGroup(0, 1) {}
  std::unique_ptr<Work> all_reduce(const Tensor& x) override;
  void broadcast(std::span<std::byte>) override {}
  std::vector<std::string> all_gather(const std::string& text) override { return {text}; }
  int share_of_cores() const override;
};

/// The rank that mpirun, or another launcher of MPI programs, gave this process. Nothing when none
/// started it. Read from the environment, so that it can be asked before MPI is initialised, and
/// where there is no MPI.
std::optional<int> launched_rank();

/// The sum of each of these numbers over all ranks, now.
std::vector<double> summed(ProcessGroup& group, const std::vector<double>& numbers);

/// StateError, on all ranks alike, unless all have the same `lines` of text. It says of the first
/// rank that differs from rank 0 which line differs, and how.
void check_agreement(ProcessGroup& group, std::string_view operation,
                     const std::vector<std::string>& lines);

}  // namespace tapehead::nn
