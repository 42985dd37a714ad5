// Budgets: what a graph may save, as conditions for unit tests. In doctest, and likewise elsewhere:
//
//     CHECK(graph::saves_at_most(tape.graph(), {"4*B*h*T^2 + 20*B*T*d + T^2", sizes}));
//     CHECK(graph::saves_no_square(tape.graph(), T));
//
// The result converts to bool and prints as its message, which names what was measured and, after a
// failure, the slots at fault: module, operation, slot, dtype, shape, bytes and reason. What
// recomputed nodes save comes and goes within a rule and never counts. Bytes are those of
// saved_activation_bytes(): an input that from_vector, tensor or load_safetensors made, or a view
// of it, costs nothing; one that randn made costs its bytes.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/graph/formula_value.h>

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::graph {

/// Whether a condition holds, and what was measured.
struct BudgetResult {
  bool ok = false;      ///< it holds
  std::string message;  ///< what was measured, and the slots at fault
  /// ok.
  explicit operator bool() const { return ok; }
};
/// Writes the message.
std::ostream& operator<<(std::ostream& out, const BudgetResult& result);

/// A number of bytes, or a formula for it in named sizes (formula_value.h, and its errors).
/// ValueError when negative.
struct Budget {
  /// So many bytes. Implicit: saves_at_most(graph, 4096).
  Budget(std::int64_t at_most);
  /// The value of the formula: {"4*B*T^2", {{"B", 8}, {"T", 128}}}.
  Budget(std::string_view formula, const Sizes& sizes);

  std::int64_t bytes;       ///< at most
  std::string source = {};  ///< the formula with its sizes; empty when there is none
};

/// saved_activation_bytes() within the budget.
BudgetResult saves_at_most(const Graph& graph, const Budget& budget);

/// No saved tensor has two dims of this size, parameters and inputs apart: of size T, this says
/// that memory grows no faster than T. Choose a size that no other dim has. ValueError: size < 1.
BudgetResult saves_no_square(const Graph& graph, std::int64_t size);

/// The operation of this name saves nothing wherever it runs, or wherever it runs in this module
/// and below it; both are patterns as of glob.h. Not ok when it does not run there.
BudgetResult saves_nothing(const Graph& graph, std::string_view operation,
                           std::string_view module = {});

/// Every saved slot as one line "module operation slot shape dtype bytes", in the order of
/// graph.saved, with "-" for no module; bytes are those of the whole storage that the slot keeps.
/// What such lines list is compared below.
std::vector<std::string> saved_lines(const Graph& graph);

/// saved_lines() are these, in any order. The message lists what is missing and what was added.
BudgetResult saves_exactly(const Graph& graph, const std::vector<std::string>& lines);
/// The same with the lines of a text file; empty ones and those that begin with # do not count.
/// IoError when it cannot be read.
BudgetResult saves_as_in_file(const Graph& graph, const std::filesystem::path& path);

/// The peak of a graph that a Ledger made is within the budget. What was live before and met by no
/// operation does not count. ValueError when the graph has no events.
BudgetResult peaks_at_most(const Graph& graph, const Budget& budget);

}  // namespace tapehead::graph
