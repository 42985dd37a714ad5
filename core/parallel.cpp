#include <tapehead/core/error.h>
#include <tapehead/core/parallel.h>

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <string>

namespace tapehead {
namespace {

std::atomic<int> process_threads{0};  // 0: not set, use the cores

int count_cores() {
  static const int cores = omp_get_num_procs();  // asks the system: too slow for every call
  return cores;
}

}  // namespace

int num_threads() {
  if (const ThreadBudget* budget = ThreadBudget::innermost()) return budget->count_;
  const int set = process_threads.load(std::memory_order_relaxed);
  return set > 0 ? set : count_cores();
}

void set_num_threads(int count) {
  if (count <= 0)
    throw ValueError("set_num_threads", std::to_string(count) + " threads: must be positive");
  process_threads.store(count, std::memory_order_relaxed);
}

ThreadBudget::ThreadBudget(int count) : count_(count) {
  if (count <= 0)
    throw ValueError("ThreadBudget", std::to_string(count) + " threads: must be positive");
}

void parallel_for(std::int64_t count, std::int64_t grain,
                  FunctionRef<void(std::int64_t, std::int64_t)> body) {
  if (count <= 0) return;
  if (count <= grain) return body(0, count);
  const std::int64_t useful = (count + grain - 1) / std::max<std::int64_t>(grain, 1);
  const auto threads = static_cast<int>(std::min<std::int64_t>(num_threads(), useful));
  if (threads <= 1 || omp_in_parallel()) return body(0, count);
#pragma omp parallel num_threads(threads)
  {
    // The team may be smaller than asked for.
    const std::int64_t team = omp_get_num_threads(), member = omp_get_thread_num();
    const std::int64_t begin = count * member / team, end = count * (member + 1) / team;
    if (begin < end) body(begin, end);
  }
}

}  // namespace tapehead
