// Help texts as they fit a terminal.
#pragma once

#include <cstddef>
#include <string>

namespace tapehead::program {

/// `text` with its lines broken at blanks where they are longer than `columns`; what follows stands
/// below the last column of text in the line, as descriptions of options do.
std::string wrapped_help(const std::string& text, std::size_t columns = 100);

}  // namespace tapehead::program
