// Graphs as JSON files, format "tapehead-graph/1"; tapehead-graph-1.schema.json describes it field
// by field.
//
// The same graph gives the same bytes: keys are sorted, one row stands on one line, and there are
// no times and no addresses. Numbers survive: an integer is written as an integer, a floating-point
// number with the digits that give back the same bits, and, where JSON has no number for it, as the
// string "nan", "inf" or "-inf". Text is valid UTF-8: bytes that are not become U+FFFD, so a graph
// whose names are valid reads back equal.
#pragma once

#include <tapehead/core/graph.h>

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>

namespace tapehead::graph {

/// The name of the format, which every file carries.
inline constexpr std::string_view format_name = "tapehead-graph/1";

/// The whole file as text.
std::string to_json(const Graph& graph);
/// IoError when the stream fails.
void write_json(const Graph& graph, std::ostream& out);
/// Writes the file whole or not at all. IoError when it cannot be written.
void write_json(const Graph& graph, const std::filesystem::path& path);

/// The graph that `text` describes, checked so that the rest of the library can trust it: every id
/// names a row that exists, every shape can exist, and sums of bytes fit. ValueError says what is
/// wrong and in which row; `source` (a file's name) stands in the text.
Graph from_json(std::string_view text, std::string_view source = "text");
/// @{
/// IoError when the stream or the file cannot be read, ValueError as from_json.
Graph read_json(std::istream& in);
Graph read_json(const std::filesystem::path& path);
/// @}

}  // namespace tapehead::graph
