// What a name that is not there may have been meant for.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace tapehead::graph {

/// "; the nearest names are softmax and log_softmax": up to three of `names` that need the fewest
/// changes of characters so that the pattern (glob.h) stands in them, the shorter first. "; there
/// are none" without names.
std::string near_names(std::string_view pattern, const std::set<std::string_view>& names);

}  // namespace tapehead::graph
