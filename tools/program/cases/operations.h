// The operations that case files may name: a table from the name to a short function.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "call.h"

namespace tapehead::program {

/// What a case's operation is: from the call to its outputs.
using Operation = std::function<std::vector<Tensor>(Call&)>;

class Operations {
 public:
  /// `call(Call&)` returns a Tensor or, for several outputs, a std::vector<Tensor>.
  template <class F>
  void add(const std::string& name, F&& call) {
    table_.emplace(name, [call](Call& c) -> std::vector<Tensor> { return one_or_many(call(c)); });
  }

  /// Null for a name that is not in the table.
  const Operation* find(const std::string& name) const {
    const auto found = table_.find(name);
    return found == table_.end() ? nullptr : &found->second;
  }

 private:
  static std::vector<Tensor> one_or_many(Tensor output) { return {std::move(output)}; }
  static std::vector<Tensor> one_or_many(std::vector<Tensor> outputs) { return outputs; }

  std::map<std::string, Operation> table_;
};

/// The whole table.
const Operations& operations();

// Its parts, one for each chapter of the format.
void add_elementwise(Operations& table);
void add_reductions(Operations& table);
void add_linear_algebra(Operations& table);
void add_shapes(Operations& table);
void add_indexing(Operations& table);
void add_networks(Operations& table);
void add_losses(Operations& table);
void add_attention(Operations& table);
void add_optimizers(Operations& table);

}  // namespace tapehead::program
