// MpiGroup and DataParallel among the ranks that mpirun started: every rank runs every test case.
//
//     mpirun -n 3 --oversubscribe build/release/tapehead_mpi_tests
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <tapehead/core/parallel.h>
#include <tapehead/nn/distributed.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/nn/mpi_group.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/views.h>

#include <algorithm>
#include <span>

using namespace tapehead;

namespace {

using Values = std::vector<double>;

nn::MpiGroup* ranks = nullptr;

nn::Gpt make_model(DType dtype) {
  Generator g(static_cast<std::uint64_t>(ranks->rank()) + 1);  // others than rank 0's
  return nn::Gpt(
      {.vocab_size = 90, .context = 8, .layers = 2, .heads = 4, .dim = 16, .dtype = dtype}, g);
}

// A rank's own tokens.
Tensor make_tokens(std::uint64_t key) {
  std::vector<std::int64_t> tokens;
  const std::uint64_t stream = key * 100 + static_cast<std::uint64_t>(ranks->rank());
  for (std::uint64_t i = 0; i < 16; ++i) tokens.push_back(random_bits(stream, i) % 90);
  return from_vector(tokens, {2, 8});
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
  const nn::Gpt model = make_model(dtype);
  nn::DataParallel parallel(model, *ranks, {.bucket_bytes = bucket_bytes});
  nn::AdamW optimizer(model, {.lr = 1e-2});
  for (std::uint64_t step = 0; step < 5; ++step) {
    Tape tape;
    optimizer.step(parallel.gradient(tape, loss_of(model, make_tokens(step))));
  }
  Values values;
  for (const Tensor& p : model.parameters())
    for (const double value : p.to_vector()) values.push_back(value);
  return values;
}

}  // namespace

TEST_CASE("sums, copies and texts come from all ranks") {
  const int rank = ranks->rank(), size = ranks->size(), sum_of_ranks = size * (size + 1) / 2;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t count : {0, 1, 7, 100'000}) {
      const Tensor x = full({count}, rank + 1, dtype);
      ranks->all_reduce(x)->wait();
      CHECK(x.to_vector() == Values(static_cast<std::size_t>(count), sum_of_ranks));
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

int main(int argc, char** argv) {
  nn::MpiGroup group;
  ranks = &group;
  doctest::Context context(argc, argv);
  context.setOption("force-colors", false);
  if (group.rank() > 0) context.setOption("minimal", true);
  return context.run();
}
