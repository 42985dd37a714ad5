// The processes that train together: this one alone, or those that mpirun started.
//
// mpirun ends all of them when one has ended with a fault or by a signal: SIGTERM, and SIGKILL one
// second later. Of the line on stderr that says what happened there is one for each machine.
#pragma once

#include <tapehead/nn/process_group.h>

#include <functional>
#include <memory>

namespace tapehead::program {

/// Returns at once in the first of the processes that mpirun started. The others give it the time
/// to say what is wrong with the command line, which is the same for all, and to end them by that.
void let_rank_0_speak();

/// The group that this process belongs to. In that of several only rank 0 writes to stdout from
/// then on. StateError when there are several and the program was built without MPI.
std::unique_ptr<nn::ProcessGroup> join_ranks();

/// Collective. Does a part of the work that each rank does by itself. When that throws on one rank,
/// all throw what it said, with its rank unless all say the same.
void together(nn::ProcessGroup& group, const std::function<void()>& part);

/// Does the work. In a group of several, what is thrown on all ranks is thrown on by one of them
/// first; and the process ends with exit code 1 when another rank was lost, or when SIGTERM came
/// and the work did not end soon after it.
void as_one(nn::ProcessGroup& group, const std::function<void()>& work);

}  // namespace tapehead::program
