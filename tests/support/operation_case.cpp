#include "operation_case.h"

namespace tapehead::tests {

std::vector<std::vector<Shape>> OperationCase::shapes() const {
  std::vector<std::vector<Shape>> all{{}};
  for (const Input& input : inputs_) all[0].push_back(input.shape);
  all.insert(all.end(), shapes_.begin(), shapes_.end());
  return all;
}

OperationCase pointwise(std::string name, std::function<Tensor(Tensor)> f, const std::string& saves,
                        Domain domain) {
  return row(std::move(name), {{domain, {2, 3}}},
             [f = std::move(f)](In x) { return f(std::move(x[0])); })
      .saves(saves)
      .also({})
      .also({1})
      .also({1, 1})
      .also({0, 3})
      .also({2, 1, 3});
}

namespace {

OperationCase broadcast_row(std::string name, OperationCase::Function f, const std::string& saves,
                            Domain a, Domain b) {
  return OperationCase(std::move(name), {{a, {2, 3}}, {b, {2, 3}}}, std::move(f))
      .saves(saves)
      .also({2, 3}, {3})
      .also({3}, {2, 3})
      .also({2, 1}, {1, 3})
      .also({1, 3, 1}, {2, 3, 4})
      .also({}, {2, 3})
      .also({2, 3}, {})
      .also({}, {})
      .also({1}, {})
      .also({1, 1}, {1})
      .also({0, 3}, {3})
      .also({0, 3}, {1, 1})
      .also({4, 0}, {4, 1});
}

}  // namespace

OperationCase broadcast(std::string name, Tensor (*f)(Tensor, Tensor), const std::string& saves,
                        Domain a, Domain b) {
  const auto call = [f](In x) { return std::vector{f(std::move(x[0]), std::move(x[1]))}; };
  return broadcast_row(std::move(name), call, saves, a, b);
}

OperationCase broadcast(std::string name, Tensor (*f)(const Tensor&, const Tensor&),
                        const std::string& saves, Domain a, Domain b) {
  return broadcast_row(
      std::move(name), [f](In x) { return std::vector{f(x[0], x[1])}; }, saves, a, b);
}

const Rows& operation_cases() {
  static const Rows rows = [] {
    Rows all;
    for (const auto& family : {pointwise_rows, binary_rows, reduce_rows, matmul_rows, neural_rows,
                               view_rows, index_rows}) {
      Rows more = family();
      all.insert(all.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
    }
    return all;
  }();
  return rows;
}

}  // namespace tapehead::tests
