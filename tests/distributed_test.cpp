// DataParallel, on ranks that are threads; and what a launcher says of ranks that are processes.
#include "support/checks.h"
#include "support/thread_group.h"

#include <tapehead/core/testing.h>
#include <tapehead/nn/distributed.h>
#include <tapehead/nn/layers.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/windows.h>

#include <cstdlib>
#include <optional>

using namespace tapehead;
using tests::contains;
using tests::on_ranks;
using tests::ThreadGroup;

namespace {

using Values = std::vector<double>;
using Texts = std::vector<std::string>;

// Two maps and one that is not always used.
struct Net : nn::Module {
  explicit Net(Generator& g, std::int64_t width = 3, DType dtype = DType::f64)
      : first({.in_features = 2, .out_features = width, .dtype = dtype}, g),
        second({.in_features = width, .out_features = 1, .dtype = dtype}, g),
        aside({.in_features = 2, .out_features = 1, .dtype = dtype}, g) {}

  nn::Linear first, second, aside;

  void visit(nn::Visitor& v) override {
    v("first", first);
    v("second", second);
    v("aside", aside);
  }
  Tensor operator()(const Tensor& x, bool with_aside = false) const {
    const Tensor y = second(tanh(first(x)));
    return with_aside ? add(y, aside(x)) : y;
  }
};

Values all_values(const nn::Module& module) {
  Values values;
  for (const Tensor& parameter : module.parameters())
    for (const double value : parameter.to_vector()) values.push_back(value);
  return values;
}

// Rows `rank` of the data that all ranks share.
Tensor rows(const Tensor& data, int rank, std::int64_t count) {
  return narrow(data, 0, rank * count, count);
}

struct Data {
  Tensor x, y;
  explicit Data(std::int64_t count) {
    Generator g(7);
    x = randn({count, 2}, DType::f64, g);
    y = randn({count, 1}, DType::f64, g);
  }
};

}  // namespace

TEST_CASE("ranks that average their gradients step as one rank with the data of all") {
  const int ranks = 3;
  const Data data(12);
  Generator g(1);
  Net whole(g);
  nn::AdamW optimizer(whole, {.lr = 0.1});
  Values losses;
  for (int step = 0; step < 10; ++step) {
    Tape tape;
    const Tensor loss = mse_loss(whole(data.x), data.y);
    losses.push_back(loss.item());
    optimizer.step(tape.gradient(loss, whole.parameters()));
  }
  for (const std::int64_t bucket_bytes : {1, 40, 1 << 20}) {
    CAPTURE(bucket_bytes);
    std::vector<Values> ends(ranks);
    Values means(10, 0);
    std::mutex mutex;
    const Texts thrown = on_ranks(ranks, [&](ThreadGroup& group) {
      Generator own(static_cast<std::uint64_t>(group.rank()) + 1);  // others than rank 0's
      const Net net(own);
      nn::DataParallel parallel(net, group, {.bucket_bytes = bucket_bytes});
      nn::AdamW steps(net, {.lr = 0.1});
      for (std::size_t step = 0; step < 10; ++step) {
        Tape tape;
        const Tensor loss =
            mse_loss(net(rows(data.x, group.rank(), 4)), rows(data.y, group.rank(), 4));
        steps.step(parallel.gradient(tape, loss));
        const std::lock_guard lock(mutex);
        means[step] += loss.item() / ranks;
      }
      ends[static_cast<std::size_t>(group.rank())] = all_values(net);
    });
    CHECK(thrown == Texts(ranks));
    CHECK(ends[1] == ends[0]);
    CHECK(ends[2] == ends[0]);
    // Ten steps of sums of twelve terms, in another order.
    for (std::size_t step = 0; step < 10; ++step)
      CHECK(means[step] == doctest::Approx(losses[step]).epsilon(1e-13));
  }
}

TEST_CASE(
    "a parameter that one rank reaches is stepped on all, and one that none reaches on none") {
  const Data data(4);
  std::vector<std::string> reached(2);
  Values means(2);
  const Texts thrown = on_ranks(2, [&](ThreadGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    Generator g(1);
    const Net net(g);
    nn::DataParallel parallel(net, group);
    for (const int with_aside : {0, 1, 0}) {
      Tape tape;
      const Tensor y = sum(net(data.x, with_aside == 1 && rank == 1));
      const Gradients means_now = parallel.gradient(tape, y);
      reached[rank] += means_now.reached(net.aside.bias) ? "yes " : "no ";
      means[rank] += means_now[net.aside.bias].item();
    }
  });
  CHECK(thrown == Texts(2));
  CHECK(reached == Texts(2, "no yes no "));
  CHECK(means == Values(2, 4 * 0.5));  // four rows on one of two ranks
}

TEST_CASE("buckets hold what fits, in order, and tensors of one dtype") {
  const DType f32 = DType::f32;
  const std::vector<nn::Parcel> parcels{{f32, 4}, {f32, 8}, {f32, 12},      {f32, 400},
                                        {f32, 4}, {f32, 4}, {DType::f64, 4}};
  using Buckets = std::vector<std::vector<std::size_t>>;
  CHECK(nn::fill_buckets(parcels, 12) == Buckets{{0, 1}, {2}, {3}, {4, 5}, {6}});
  CHECK(nn::fill_buckets(parcels, 1) == Buckets{{0}, {1}, {2}, {3}, {4}, {5}, {6}});
  CHECK(nn::fill_buckets(parcels, 1000) == Buckets{{0, 1, 2, 3, 4, 5}, {6}});
}

TEST_CASE("a bucket's all-reduce starts while the walk goes on") {
  // How many collectives have begun when the rule of each operation runs, from the last one back.
  struct Count final : testing::RuleHook {
    explicit Count(const ThreadGroup& g) : group(g) {}
    Grads run(Node& node, Tensor g, const Wanted& wanted) override {
      counts.push_back(group.begun());
      return node.backward(std::move(g), wanted);
    }
    const ThreadGroup& group;
    std::vector<std::size_t> counts;
  };
  const Data data(2);
  std::vector<std::vector<std::size_t>> counts(2);
  const Texts thrown = on_ranks(2, [&](ThreadGroup& group) {
    Generator g(1);
    const Net net(g);
    nn::DataParallel parallel(net, group, {.bucket_bytes = 32});  // a map's weight and bias
    for (int step = 0; step < 2; ++step) {
      Tape tape;
      const Tensor y = sum(net(data.x));
      Count count(group);
      const std::size_t before = group.begun() + (step == 0 ? 1 : 0);  // the layout's broadcast
      parallel.gradient(tape, y);
      CHECK(group.begun() > before);
      for (std::size_t& c : count.counts) c -= before;
      counts[static_cast<std::size_t>(group.rank())] = count.counts;
    }
  });
  CHECK(thrown == Texts(2));
  // sum, second (its bucket is on its way afterwards), tanh, first
  CHECK(counts == std::vector<std::vector<std::size_t>>(2, {0, 0, 1, 1}));
}

TEST_CASE("ranks with other parameters are told how they differ, all in the same words") {
  const auto words = [](const std::function<void(ThreadGroup&)>& f) {
    const Texts thrown = on_ranks(3, f);
    CHECK(thrown[1] == thrown[0]);
    CHECK(thrown[2] == thrown[0]);
    return thrown[0];
  };
  const std::string shape = words([](ThreadGroup& group) {
    Generator g(1);
    const Net net(g, group.rank() == 2 ? 4 : 3);
    const nn::DataParallel parallel(net, group);
  });
  CHECK(contains(shape,
                 "DataParallel: the ranks do not agree: rank 2 has \"first.weight f64 (4, "
                 "2)\" where rank 0 has \"first.weight f64 (3, 2)\""));
  const std::string dtype = words([](ThreadGroup& group) {
    Generator g(1);
    const Net net(g, 3, group.rank() == 1 ? DType::f32 : DType::f64);
    const nn::DataParallel parallel(net, group);
  });
  CHECK(contains(dtype, "rank 1 has \"first.weight f32 (3, 2)\""));
  const std::string fewer = words([](ThreadGroup& group) {
    Generator g(1);
    const Net net(g);
    if (group.rank() == 1) const nn::DataParallel parallel(net.first, group);
    else const nn::DataParallel parallel(net, group);
  });
  CHECK(contains(fewer, "rank 1 has \"weight f64 (3, 2)\" where rank 0 has \"first.weight"));
  const std::string buckets = words([](ThreadGroup& group) {
    Generator g(1);
    const Net net(g);
    const nn::DataParallel parallel(net, group, {.bucket_bytes = 10 + group.rank()});
  });
  CHECK(contains(buckets, "rank 1 has \"buckets of 11 bytes\""));
  const std::string version = words([](ThreadGroup& group) {
    nn::check_agreement(group, "DataParallel",
                        {group.rank() == 1 ? "tapehead 0.2.0" : "tapehead 0.1.0"});
  });
  CHECK(contains(version, "rank 1 has \"tapehead 0.2.0\" where rank 0 has \"tapehead 0.1.0\""));
  const std::string missing = words([](ThreadGroup& group) {
    nn::check_agreement(group, "test", group.rank() == 1 ? Texts{"a"} : Texts{"a", "b"});
  });
  CHECK(contains(missing, "rank 1 has nothing where rank 0 has \"b\""));
}

TEST_CASE("after a call that ended with an error the ranks are out of step, and it says so") {
  const Data data(2);
  const Texts thrown = on_ranks(2, [&](ThreadGroup& group) {
    Generator g(1);
    const Net net(g);
    nn::DataParallel parallel(net, group);
    Tape tape;
    const Tensor y = net(data.x), k = zeros({}, DType::f64);
    tests::check_throws(ErrorKind::shape, {"seed"}, [&] { parallel.gradient(tape, y); });
    tests::check_throws(ErrorKind::state, {"constant"}, [&] { parallel.gradient(tape, k); });
    tests::check_throws(ErrorKind::state, {"DataParallel", "out of step"},
                        [&] { parallel.gradient(tape, sum(y)); });
  });
  CHECK(thrown == Texts(2));
}

TEST_CASE("a process that is alone has the gradients of its tape") {
  const Data data(2);
  Generator g(1);
  const Net net(g);
  nn::OneProcess alone;
  nn::DataParallel parallel(net, alone);
  Tape tape;
  const Tensor y = sum(net(data.x));
  const Gradients expected = tape.gradient(y, net.parameters(), {}, {.keep = true});
  const Gradients got = parallel.gradient(tape, y);
  for (const Tensor& p : net.parameters()) CHECK(got[p].to_vector() == expected[p].to_vector());
  CHECK(parallel.traffic().calls == 0);
  tests::check_throws(ErrorKind::value, {"DataParallel", "bucket_bytes 0 must be positive"},
                      [&] { nn::DataParallel(net, alone, {.bucket_bytes = 0}); });
}

TEST_CASE("a process knows its rank from its launcher, before MPI does") {
  CHECK_FALSE(nn::launched_rank());
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    CAPTURE(variable);
    setenv(variable, "3", 1);
    CHECK(nn::launched_rank() == std::optional<int>(3));
    unsetenv(variable);
  }
}
