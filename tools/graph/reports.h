// Reports on a whole graph: its sums, its floating-point operations, its memory through the steps.
// Texts fit page_columns; JSON has sorted keys, and the same graph gives the same bytes.
#pragma once

#include <tapehead/core/graph.h>

#include <cstddef>
#include <string>

namespace tapehead::graph {

/// @{
/// What the backward pass saves, the peak and its step, bytes of parameters, gradients and
/// optimizer state, operations, their donatable inputs and their flops; then saved_table(). Without
/// events there is no peak. Bytes of a category are the most that lived at the end of a step;
/// without events, the sum of its storages.
std::string summary_text(const Graph& graph);
std::string summary_json(const Graph& graph);
/// @}

/// @{
/// Floating-point operations of the matrix products in the forward computation, by module and by
/// operation. What was computed again within rules stands apart.
std::string flops_text(const Graph& graph);
std::string flops_json(const Graph& graph);
/// @}

/// Live bytes by category over the steps, as a plot that runs downwards, with the peak and the
/// borders between forward, backward and update. ValueError without events, as all that follow.
std::string timeline_text(const Graph& graph);
/// Every step, with the bytes at its end and the most within it.
std::string timeline_json(const Graph& graph);

/// @{
/// The step of the peak and what is live there, the largest first, each with its reason, and the
/// sums by category. The text lists at most `limit` storages; the sums are over all.
std::string peak_text(const Graph& graph, std::size_t limit);
std::string peak_json(const Graph& graph);
/// @}

}  // namespace tapehead::graph
