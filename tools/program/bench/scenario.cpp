#include "scenario.h"

namespace tapehead::program::bench {

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = [] {
    std::vector<Scenario> list;
    for (const auto& part : {elementwise_scenarios(), attention_scenarios(), training_scenarios()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

}  // namespace tapehead::program::bench
