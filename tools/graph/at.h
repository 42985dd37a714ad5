// Ids of a graph's rows as subscripts.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tapehead::graph {

inline std::size_t at(std::int64_t id) { return static_cast<std::size_t>(id); }

}  // namespace tapehead::graph
