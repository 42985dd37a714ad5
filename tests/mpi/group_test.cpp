// MpiGroup and DataParallel among the ranks that mpirun started: every rank runs every test case.
//
//     mpirun -n 3 --oversubscribe build/release/tapehead_mpi_tests
//
// How long a step takes, and how much of the communication the walk hides:
//
//     mpirun -n 2 build/release/tapehead_mpi_tests --no-skip --test-case='steps are timed'
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <tapehead/core/parallel.h>
#include <tapehead/nn/distributed.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/nn/mpi_group.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/views.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <span>

using namespace tapehead;

namespace {

using Values = std::vector<double>;

nn::MpiGroup* ranks = nullptr;

nn::Gpt make_model(std::int64_t layers, std::int64_t dim, std::int64_t context, DType dtype) {
  Generator g(static_cast<std::uint64_t>(ranks->rank()) + 1);  // others than rank 0's
  return nn::Gpt({.vocab_size = 90,
                  .context = context,
                  .layers = layers,
                  .heads = 4,
                  .dim = dim,
                  .dtype = dtype},
                 g);
}

// A rank's own tokens.
Tensor make_tokens(std::int64_t batch, std::int64_t context, std::uint64_t key) {
  std::vector<std::int64_t> tokens;
  const std::uint64_t stream = key * 100 + static_cast<std::uint64_t>(ranks->rank());
  for (std::int64_t i = 0; i < batch * context; ++i)
    tokens.push_back(random_bits(stream, static_cast<std::uint64_t>(i)) % 90);
  return from_vector(tokens, {batch, context});
}

Tensor loss_of(const nn::Gpt& model, const Tensor& tokens) {
  return cross_entropy(reshape(model(tokens), {-1, 90}), reshape(tokens, {-1}));
}

bool same_on_all(const Values& values) {
  const std::string bytes(reinterpret_cast<const char*>(values.data()),
                          values.size() * sizeof(double));
  const std::vector<std::string> all = ranks->all_gather(bytes);
  return std::all_of(all.begin(), all.end(), [&](const std::string& x) { return x == all[0]; });
}

Values after_steps(DType dtype, std::int64_t bucket_bytes) {
  const nn::Gpt model = make_model(2, 16, 8, dtype);
  nn::DataParallel parallel(model, *ranks, {.bucket_bytes = bucket_bytes});
  nn::AdamW optimizer(model, {.lr = 1e-2});
  for (std::uint64_t step = 0; step < 5; ++step) {
    Tape tape;
    optimizer.step(parallel.gradient(tape, loss_of(model, make_tokens(2, 8, step))));
  }
  Values values;
  for (const Tensor& p : model.parameters())
    for (const double value : p.to_vector()) values.push_back(value);
  return values;
}

}  // namespace

TEST_CASE("sums, copies and texts come from all ranks") {
  const int rank = ranks->rank(), size = ranks->size();
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t count : {0, 1, 7, 100'000}) {
      const Tensor x = full({count}, rank + 1, dtype);
      ranks->all_reduce(x)->wait();
      CHECK(x.to_vector() == Values(static_cast<std::size_t>(count), size * (size + 1) / 2));
    }
  std::vector<int> numbers{rank, 10 * rank};
  ranks->broadcast(std::as_writable_bytes(std::span(numbers)));
  CHECK(numbers == std::vector<int>{0, 0});
  const std::vector<std::string> texts =
      ranks->all_gather(std::string(static_cast<std::size_t>(rank), 'x'));
  for (int r = 0; r < size; ++r)
    CHECK(texts[static_cast<std::size_t>(r)] == std::string(static_cast<std::size_t>(r), 'x'));
  CHECK_THROWS_AS(ranks->all_reduce(full({1}, 0, DType::i64)), DTypeError);
}

TEST_CASE("several sums on their way at once come out apart") {
  const std::int64_t count = 50'000;
  std::vector<Tensor> sums;
  std::vector<std::unique_ptr<nn::Work>> works;
  for (int k = 0; k < 4; ++k) {
    sums.push_back(full({count}, k, DType::f32));
    works.push_back(ranks->all_reduce(sums.back()));
    works.front()->done();
  }
  for (int k = 4; k-- > 0;) works[static_cast<std::size_t>(k)]->wait();
  for (int k = 0; k < 4; ++k)
    CHECK(sums[static_cast<std::size_t>(k)].to_vector() ==
          Values(static_cast<std::size_t>(count), k * ranks->size()));
}

TEST_CASE("the ranks' parameters stay equal to the bit, and are the same in every run") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t bucket_bytes : {1, 4096, 1 << 20}) {
      const Values once = after_steps(dtype, bucket_bytes);
      CHECK(same_on_all(once));
      CHECK(once == after_steps(dtype, bucket_bytes));
    }
}

TEST_CASE("cores are shared out") {
  CHECK(ranks->share_of_cores() >= 1);
  CHECK(ranks->share_of_cores() <= num_threads());
  CHECK_FALSE(ranks->lost_rank().has_value());
}

// ---- timing -------------------------------------------------------------------------------------

namespace {

// Milliseconds of the all-reduces of a step by themselves.
double milliseconds_of_sums(std::int64_t buckets, std::int64_t bytes) {
  const Tensor x = full({bytes / buckets / 4}, 1);
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 50; ++round) {
    ranks->all_gather("");  // all begin at once
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t k = 0; k < buckets; ++k) ranks->all_reduce(x)->wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, 1e3 * took.count());
  }
  return best;
}

// Milliseconds of a training step: the smallest of several rounds of so many.
double milliseconds_of_step(nn::ProcessGroup& group, std::int64_t bucket_bytes) {
  const nn::Gpt model = make_model(4, 128, 128, DType::f32);
  nn::DataParallel parallel(model, group, {.bucket_bytes = bucket_bytes});
  nn::AdamW optimizer(model, {.lr = 1e-3});
  const Tensor tokens = make_tokens(4, 128, 1);
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 5; ++round) {
    ranks->all_gather("");  // all begin at once
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < 10; ++step) {
      Tape tape;
      optimizer.step(parallel.gradient(tape, loss_of(model, tokens)));
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, 100 * seconds);
  }
  const nn::DataParallel::Traffic& traffic = parallel.traffic();
  if (traffic.calls == 0) return best;
  const double sums = milliseconds_of_sums(traffic.buckets, traffic.bytes);
  if (ranks->rank() == 0)
    std::printf("    %lld buckets, %lld bytes, %.2f ms by themselves; waited %.2f ms\n",
                static_cast<long long>(traffic.buckets), static_cast<long long>(traffic.bytes),
                sums, 1e3 * traffic.waited_seconds / static_cast<double>(traffic.calls));
  return best;
}

}  // namespace

TEST_CASE("steps are timed" * doctest::skip()) {
  set_num_threads(ranks->share_of_cores());
  nn::OneProcess alone;
  const auto all = std::numeric_limits<std::int64_t>::max();
  const double none = milliseconds_of_step(alone, 1), after = milliseconds_of_step(*ranks, all);
  if (ranks->rank() == 0)
    std::printf("a step without communication %.2f ms, with all of it after the walk %.2f ms\n",
                none, after);
  for (const std::int64_t bucket_bytes : {1 << 17, 1 << 19, 1 << 20}) {
    const double overlapped = milliseconds_of_step(*ranks, bucket_bytes);
    if (ranks->rank() == 0)
      std::printf("in buckets of %lld bytes %.2f ms: %.0f %% hidden\n",
                  static_cast<long long>(bucket_bytes), overlapped,
                  100 * (after - overlapped) / (after - none));
  }
}

int main(int argc, char** argv) {
  nn::MpiGroup group;
  ranks = &group;
  doctest::Context context(argc, argv);
  context.setOption("force-colors", false);
  if (group.rank() > 0) context.setOption("minimal", true);
  return context.run();
}
