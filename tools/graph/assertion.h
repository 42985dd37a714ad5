// Assertions on a graph's figures, in a small language: what a test of a model's memory says.
//
//     saved <= 66MiB
//     peak < 1.5GiB && saved(module="layers.0") <= 12MiB
//     count(operation="masked_fill") == 4 || square(512) == 0
//
// An expression is comparisons joined by && and ||, of which && binds closer; there are no brackets
// around them. A comparison is a figure, one of == != < <= > >=, and a number. Blanks may stand
// anywhere between these.
//
// A number is up to 18 digits, with up to 6 decimals, and a unit: B, KB, MB, GB, TB, PB (powers of
// 1000) or KiB, MiB, GiB, TiB, PiB (powers of 1024); decimals and unit may be left out. Comparisons
// are exact.
//
// Figures, with the filters that each takes in brackets:
//
//     saved       bytes of distinct storages and packings that slots keep, without parameters and
//                 inputs: the activations            name, operation, module
//     saved_all   the same with parameters and inputs              name, operation, module
//     slots       slots                                            name, operation, module
//     square(N)   distinct saved storages and packings with a shape that has two dims of size N
//                                                                  name, operation, module
//     count       operations recorded                              operation, module
//     flops       floating-point operations, forward               operation, module
//     peak        the most bytes that were live at once, without those from before that no
//                 operation met (as peaks_at_most of budget.h); needs a ledger's graph
//
// A filter is key="pattern", several are separated by commas: square(512, module="layers.*"). A
// pattern is that of glob.h and matches from end to end: module a module's path, or that of one
// it lies in; operation its name, "matmul#2" the second in its module; name a slot's or a saved
// value's name. module="(root)" stands for what has no module's path. What was recomputed within
// rules counts in peak alone.
//
// A filter that matches nothing is an error, for a slip of the pen must not make a bound hold. Some
// operation must run in a module that matches, some slot or value have a name that does, and an
// operation that matches must run, in the module if one is given. Only of count may no operation
// match: count(operation="masked_fill") == 0 says that there is none.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::graph {

/// What an expression said of a graph.
struct Assertion {
  /// One comparison of it.
  struct Comparison {
    std::string text;         ///< as it was written
    std::int64_t figure = 0;  ///< what the graph has
    bool in_bytes = false;    ///< the figure counts bytes
    bool holds = false;       ///< the figure is as was claimed
    bool operator==(const Comparison&) const = default;
  };
  bool holds = false;                   ///< the whole expression
  std::vector<Comparison> comparisons;  ///< all of them, in order
};

/// ValueError when the text is malformed or a filter matches nothing, with the column, from 1; and
/// when it speaks of the peak and the graph has no events. The graph comes from a tape or has
/// passed validate().
Assertion check_assertion(const Graph& graph, std::string_view text);

/// @{
/// Each comparison with the figure that was found.
std::string assertion_text(const Assertion& assertion);
std::string assertion_json(const Assertion& assertion);
/// @}

}  // namespace tapehead::graph
