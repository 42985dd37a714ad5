// Graphs as text for terminals and logs, at most 100 columns wide.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tapehead::graph {

/// What the backward pass keeps, by module: operations recorded, bytes of saved activations and
/// their share, and bytes of saved parameters and inputs, which exist anyway.
///
/// A row counts the module and everything below it. Bytes are those of distinct storages; one that
/// several modules keep is counted in the module that encloses them all, so a row is what would be
/// freed if nothing below that module were saved, and the total is graph.saved_activation_bytes().
/// What no single module encloses stands in the row "(root)": an unnamed root module's own
/// operations, those outside any module, such as the loss, and what several modules share.
/// Neighbours that are alike but for their numbers stand as one row "0-3 x 4" with the sum of all.
/// Lines below the table say how much hooks packed, and how many operations are planned, not
/// proven. The graph comes from a tape or has passed validate().
std::string saved_table(const Graph& graph);

/// Every table fits in this many columns.
inline constexpr std::size_t page_columns = 100;

/// `text` at the left of a cell of so many columns.
std::string left(std::size_t columns, const std::string& text);
/// `text` at the right of it. A blank always stands in front, so that a number too wide for its
/// column does not touch the next.
std::string right(std::size_t columns, const std::string& text);
/// `text` made fit for a page as fit_label does, broken at blanks into indented lines.
std::string wrapped(std::string_view text, std::size_t indent);

/// "1.50": a number with so many decimals.
std::string fixed(double value, int digits);
/// "1,234,567".
std::string format_count(std::int64_t count);
/// "1,234,567 (1.18 MiB)"; without brackets below 1024.
std::string format_bytes(std::int64_t bytes);
/// "12.5 %" of a total; "-" of nothing.
std::string format_share(std::int64_t part, std::int64_t total);
/// `text` made fit for a terminal, which names in it could else turn round or set upside down:
/// control characters and bytes that are not ASCII or whole UTF-8 become "?", and marks that turn
/// the direction of what follows their code, "\\u202e".
std::string printable(std::string_view text);
/// The same for one table cell: what is longer than `columns` characters loses its middle to "...".
std::string fit_label(std::string_view text, std::size_t columns);

}  // namespace tapehead::graph
