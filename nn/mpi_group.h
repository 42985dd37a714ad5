// MpiGroup: the processes that mpirun started, as a ProcessGroup. In the library tapehead::mpi,
// which is there when Tapehead is built with -DTAPEHEAD_MPI=ON.
#pragma once

#include <tapehead/nn/process_group.h>

#include <memory>

namespace tapehead::nn {

/// The ranks of MPI's world.
class MpiGroup final : public ProcessGroup {
 public:
  /// Initialises MPI. At most one in the life of a process, and every rank makes it.
  MpiGroup();
  /// Waits for the other ranks and leaves. While an exception passes, or when one of them has ended
  /// already, it does not: the process should end then, with an exit code that is not 0, and mpirun
  /// will end the others.
  ~MpiGroup() override;

  std::unique_ptr<Work> all_reduce(const Tensor& x) override;
  void broadcast(std::span<std::byte> bytes) override;
  std::vector<std::string> all_gather(const std::string& text) override;

  int share_of_cores() const override;
  std::optional<int> lost_rank() const override;
  bool is_first_to_report() override;

 private:
  struct Machine;
  struct Place {
    int rank, size;
  };
  static Place initialise();
  explicit MpiGroup(Place place);
  void leave();

  const int exceptions_;  // that were passing when it was made
  std::unique_ptr<Machine> machine_;
};

}  // namespace tapehead::nn
