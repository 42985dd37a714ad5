#include <tapehead/nn/mpi_group.h>

#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <functional>
#include <limits>
#include <thread>

namespace tapehead::nn {
namespace {

using Clock = std::chrono::steady_clock;

// A rank that waits keeps its core ready for the others' last microseconds, and gives it up when
// they are far behind.
constexpr auto impatient = std::chrono::milliseconds(10);
constexpr auto nap = std::chrono::microseconds(100);

// What the ranks of a machine share: an entry each. A signal handler reads it.
struct Entry {
  int rank;
  pid_t process;
  std::atomic<bool> left;
  std::atomic<bool> reported;  // of the first entry: whether some rank did
};
static_assert(std::atomic<bool>::is_always_lock_free);

MPI_Datatype mpi_type(const Tensor& x) {
  check_floating("all_reduce", "x", x);
  return x.dtype() == DType::f64 ? MPI_DOUBLE : MPI_FLOAT;
}

int as_int(const char* operation, std::int64_t count) {
  if (count > std::numeric_limits<int>::max())
    throw ValueError(operation, std::to_string(count) + " elements are more than MPI can count");
  return static_cast<int>(count);
}

// Progress is made in calls of MPI alone, so waiting is asking again and again.
void await(MPI_Request& request, const char* operation, const ProcessGroup& group) {
  const auto start = Clock::now();
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done) return;
    if (Clock::now() - start < impatient) {
      sched_yield();
      continue;
    }
    if (const std::optional<int> lost = group.lost_rank()) throw RankLostError(operation, *lost);
    std::this_thread::sleep_for(nap);
  }
}

// The same for a collective whose memory nobody else holds. MPI cannot be told to forget a
// collective, and may still read and write there: when the wait ends in an error, it is given up.
template <class Memory>
void await(MPI_Request& request, const char* operation, const ProcessGroup& group,
           std::unique_ptr<Memory>& memory) try {
  await(request, operation, group);
} catch (...) {
  (void)memory.release();
  throw;
}

class MpiWork final : public Work {
 public:
  MpiWork(const ProcessGroup& group, const Tensor& x)
      : group_(group), x_(std::make_unique<const Tensor>(x)) {
    MPI_Iallreduce(MPI_IN_PLACE, x.view().data, as_int("all_reduce", x.numel()), mpi_type(x),
                   MPI_SUM, MPI_COMM_WORLD, &request_);
  }
  // Gives the buffer up, as await does.
  ~MpiWork() override {
    if (request_ != MPI_REQUEST_NULL) (void)x_.release();
  }

  bool done() override {
    int done = 0;
    MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }
  void wait() override { await(request_, "all_reduce", group_); }

 private:
  const ProcessGroup& group_;
  std::unique_ptr<const Tensor> x_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// Of the ranks of this machine, those that may run on the same cores as this one.
int ranks_on_same_cores(MPI_Comm machine, int ranks, const cpu_set_t& own) {
  std::vector<cpu_set_t> all(static_cast<std::size_t>(ranks));
  MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, machine);
  return static_cast<int>(std::count_if(
      all.begin(), all.end(), [&](const cpu_set_t& other) { return CPU_EQUAL(&own, &other); }));
}

}  // namespace

struct MpiGroup::Machine {
  explicit Machine(int rank) {
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &ranks);
    int place;
    MPI_Comm_rank(ranks, &place);
    MPI_Comm_size(ranks, &count);
    share_table(place);
    own = table + place;
    own->rank = rank;
    own->process = getpid();
    own->left = false;
    own->reported = false;
    MPI_Barrier(ranks);
    // Processes of other containers cannot be seen, and are not watched.
    for (Entry* entry = table; entry != table + count; ++entry)
      if (kill(entry->process, 0) == 0) watched.push_back(entry);
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
      share_of_cores = std::max(1, CPU_COUNT(&cores) / ranks_on_same_cores(ranks, count, cores));
  }

  void share_table(int place) {
    const MPI_Aint bytes = place == 0 ? count * static_cast<MPI_Aint>(sizeof(Entry)) : 0;
    void* mine;
    MPI_Win window;  // until the process ends: a signal handler may look at any time
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, ranks, &mine, &window);
    MPI_Aint size;
    int unit;
    MPI_Win_shared_query(window, 0, &size, &unit, &table);
  }

  MPI_Comm ranks;
  int count = 0;
  Entry* table = nullptr;
  Entry* own = nullptr;
  std::vector<Entry*> watched;
  int share_of_cores = 1;
};

MpiGroup::Place MpiGroup::initialise() {
  int provided, rank, size;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return {rank, size};
}

MpiGroup::MpiGroup() : MpiGroup(initialise()) {}

MpiGroup::MpiGroup(Place place)
    : ProcessGroup(place.rank, place.size),
      exceptions_(std::uncaught_exceptions()),
      machine_(std::make_unique<Machine>(place.rank)) {}

MpiGroup::~MpiGroup() {
  if (std::uncaught_exceptions() > exceptions_) return;
  try {
    leave();
  } catch (const RankLostError&) {  // mpirun has seen it too
  }
}

void MpiGroup::leave() {
  machine_->own->left = true;
  MPI_Request everybody;
  MPI_Ibarrier(MPI_COMM_WORLD, &everybody);
  await(everybody, "leave", *this);
  MPI_Finalize();
}

std::unique_ptr<Work> MpiGroup::all_reduce(const Tensor& x) {
  return std::make_unique<MpiWork>(*this, x);
}

void MpiGroup::broadcast(std::span<std::byte> bytes) {
  constexpr std::size_t most = 1 << 24;
  while (!bytes.empty()) {
    const std::span<std::byte> part = bytes.first(std::min(most, bytes.size()));
    auto memory = std::make_unique<std::vector<std::byte>>(part.begin(), part.end());
    MPI_Request request;
    MPI_Ibcast(memory->data(), static_cast<int>(part.size()), MPI_BYTE, 0, MPI_COMM_WORLD,
               &request);
    await(request, "broadcast", *this, memory);
    std::copy(memory->begin(), memory->end(), part.begin());
    bytes = bytes.subspan(part.size());
  }
}

std::vector<std::string> MpiGroup::all_gather(const std::string& text) {
  struct Memory {
    std::string own, all;
    int length = 0;
    std::vector<int> lengths, starts;
  };
  const auto ranks = static_cast<std::size_t>(size());
  auto memory = std::make_unique<Memory>();
  auto& [own, all, length, lengths, starts] = *memory;
  own = text;
  length = as_int("all_gather", std::ssize(text));
  lengths.resize(ranks);
  starts.resize(ranks);
  MPI_Request request;
  MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
  await(request, "all_gather", *this, memory);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    starts[i] = as_int("all_gather", total);
    total += lengths[i];
  }
  all.resize(static_cast<std::size_t>(as_int("all_gather", total)));
  MPI_Iallgatherv(own.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR,
                  MPI_COMM_WORLD, &request);
  await(request, "all_gather", *this, memory);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i)
    texts.push_back(
        all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
  return texts;
}

int MpiGroup::share_of_cores() const { return machine_->share_of_cores; }

// mpirun takes note of a process that ended at once, and then there is no such process any more.
std::optional<int> MpiGroup::lost_rank() const {
  const int before = errno;
  std::optional<int> lost;
  for (const Entry* entry : machine_->watched)
    if (!entry->left && kill(entry->process, 0) != 0 && errno == ESRCH) lost = entry->rank;
  errno = before;
  return lost;
}

bool MpiGroup::is_first_to_report() { return !machine_->table[0].reported.exchange(true); }

}  // namespace tapehead::nn
