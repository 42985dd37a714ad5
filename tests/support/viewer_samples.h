// The graphs on which the tests of the tape viewer open its page, and the figures to which both
// simulators of what-if questions are held: the library's and the page's own.
#pragma once

#include <tapehead/core/graph.h>

#include <map>
#include <string>

namespace tapehead::tests {

/// By name: small and large training steps, two of one model to be compared, and one in which every
/// name and reason tries to break out of a page.
std::map<std::string, Graph> viewer_samples();

/// What-if questions on the samples and the library's answers, as tests/data/whatif.json has them:
/// JSON, one question a line. `category_bytes` is what is live at the peak. `live_sum` is the sum
/// over the steps, from 1, of the step's number times the most bytes that were live in it: whatever
/// is born or dies elsewhere changes it.
std::string what_if_answers(const std::map<std::string, Graph>& samples);

}  // namespace tapehead::tests
