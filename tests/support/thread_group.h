// Ranks that are threads of one process, for tests of what needs several.
#pragma once

#include <tapehead/core/arithmetic.h>
#include <tapehead/core/parallel.h>
#include <tapehead/nn/process_group.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tapehead::tests {

/// Where the ranks meet. The k-th collective of one rank meets the k-th of the others.
class Meeting {
 public:
  explicit Meeting(int ranks) : ranks_(ranks) {}

  /// What all ranks brought to their collectives number `at`, by rank, once all have.
  const std::vector<Tensor>& brought(std::size_t at) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return rounds_.at(at).missing == 0 || gone_; });
    if (rounds_[at].missing > 0) throw std::runtime_error("a rank did not come");
    return rounds_[at].tensors;
  }
  bool complete(std::size_t at) {
    const std::lock_guard lock(mutex_);
    return rounds_.at(at).missing == 0;
  }
  void bring(int rank, std::size_t at, Tensor x) {
    const std::lock_guard lock(mutex_);
    while (rounds_.size() <= at)
      rounds_.push_back({std::vector<Tensor>(static_cast<std::size_t>(ranks_)), ranks_});
    rounds_[at].tensors[static_cast<std::size_t>(rank)] = std::move(x);
    --rounds_[at].missing;
    changed_.notify_all();
  }
  /// A rank that ends with an exception lets nobody wait for it.
  void leave() {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    changed_.notify_all();
  }

 private:
  struct Round {
    std::vector<Tensor> tensors;
    int missing;
  };

  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Round> rounds_;
  bool gone_ = false;
};

class ThreadGroup final : public nn::ProcessGroup {
 public:
  ThreadGroup(Meeting& meeting, int rank, int size) : ProcessGroup(rank, size), meeting_(meeting) {}

  /// Collectives that this rank has begun.
  std::size_t begun() const { return begun_; }

  std::unique_ptr<nn::Work> all_reduce(const Tensor& x) override {
    return std::make_unique<Sum>(meeting_, x, bring(copied("test", x)));
  }
  void broadcast(std::span<std::byte> bytes) override {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::memcpy(bytes.data(), all_gather(text)[0].data(), bytes.size());
  }
  // A character is an element.
  std::vector<std::string> all_gather(const std::string& text) override {
    const std::vector<std::int64_t> codes(text.begin(), text.end());
    const std::size_t at = bring(from_vector(codes, {std::ssize(text)}));
    std::vector<std::string> texts;
    for (const Tensor& x : meeting_.brought(at)) {
      texts.emplace_back();
      for (const std::int64_t code : x.to_vector<std::int64_t>())
        texts.back() += static_cast<char>(code);
    }
    return texts;
  }
  int share_of_cores() const override { return 1; }

 private:
  struct Sum final : nn::Work {
    Sum(Meeting& m, Tensor buffer, std::size_t number)
        : meeting(m), x(std::move(buffer)), at(number) {}
    bool done() override { return meeting.complete(at); }
    void wait() override {
      const std::vector<Tensor>& all = meeting.brought(at);
      copy_values(x.view(), all[0].view());
      for (std::size_t rank = 1; rank < all.size(); ++rank) add_into(x.view(), all[rank].view());
    }
    Meeting& meeting;
    Tensor x;
    std::size_t at;
  };

  std::size_t bring(Tensor x) {
    meeting_.bring(rank(), begun_, std::move(x));
    return begun_++;
  }

  Meeting& meeting_;
  std::size_t begun_ = 0;
};

/// Runs f(group) as every one of `size` ranks, and returns what each threw: "" for nothing.
inline std::vector<std::string> on_ranks(int size, const std::function<void(ThreadGroup&)>& f) {
  Meeting meeting(size);
  std::vector<std::string> thrown(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      const ThreadBudget budget(1);
      ThreadGroup group(meeting, rank, size);
      try {
        f(group);
      } catch (const std::exception& error) {
        thrown[static_cast<std::size_t>(rank)] = error.what();
        meeting.leave();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

}  // namespace tapehead::tests
