#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/reports.h>
#include <tapehead/graph/text.h>
#include <tapehead/graph/timeline.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

namespace tapehead::graph {
namespace {

using nlohmann::json;

constexpr std::size_t wanted_rows = 40;
constexpr std::int64_t bar_columns = 44;

// One letter for each category, in the order of Category, and two more.
constexpr std::string_view letters = "tpisgoc";
constexpr char unwatched_letter = 'u';
constexpr char passing_letter = '.';
constexpr std::string_view legend =
    "p parameter, i input, s saved, g gradient, o optimizer state, c constant, t transient, "
    "u unwatched,\n. freed before the step's end\n";

class Plot {
 public:
  explicit Plot(const Graph& graph) : graph_(graph), line_(timeline(graph)) {}

  std::string draw() {
    text_ = left(16, "steps") + right(27, "most that was live") + "\n";
    const std::size_t most = (graph_.steps.size() + wanted_rows - 1) / wanted_rows;
    for (std::size_t begin = 0, end; begin < graph_.steps.size(); begin = end) {
      if (begin == 0 || phase(begin) != phase(begin - 1)) border(phase(begin));
      end = begin + 1;
      while (end < graph_.steps.size() && end - begin < most && phase(end) == phase(begin)) ++end;
      row(begin, end);
    }
    return std::move(text_) + std::string(page_columns, '-') + "\n" + std::string(legend) +
           "peak: " + format_bytes(line_.peak) +
           (line_.peak_step < 0 ? " before the first step"
                                : " in step " + format_count(line_.peak_step)) +
           "\n";
  }

 private:
  Graph::Phase phase(std::size_t step) const { return graph_.steps[step].phase; }

  void border(Graph::Phase next) {
    const std::string name = "-- " + std::string(to_string(next)) + " ";
    text_ += name + std::string(page_columns - name.size(), '-') + "\n";
  }

  // Draws the step of the range in which the most was live.
  void row(std::size_t begin, std::size_t end) {
    const auto first = line_.highest.begin();
    const auto highest = std::max_element(first + static_cast<std::ptrdiff_t>(begin),
                                          first + static_cast<std::ptrdiff_t>(end));
    const std::string steps =
        std::to_string(begin) + (end - begin > 1 ? "-" + std::to_string(end - 1) : "");
    const auto peak = static_cast<std::size_t>(line_.peak_step);
    const bool has_peak = line_.peak_step >= 0 && begin <= peak && peak < end;
    text_ += left(16, steps) + right(27, format_bytes(*highest)) + " " +
             bar(static_cast<std::size_t>(highest - first)) + (has_peak ? " < peak" : "") + "\n";
  }

  // Ends of the parts are rounded, not their lengths, so that the bar has the length of the sum.
  std::string bar(std::size_t step) const {
    std::string bar;
    double sum = 0;
    const auto add = [&](std::int64_t bytes, char letter) {
      sum += static_cast<double>(bytes);
      const double end = sum / static_cast<double>(std::max<std::int64_t>(line_.peak, 1));
      const auto columns =
          static_cast<std::size_t>(std::lround(end * static_cast<double>(bar_columns)));
      if (columns > bar.size()) bar.resize(columns, letter);
    };
    add(line_.unwatched, unwatched_letter);
    std::int64_t rest = line_.highest[step] - line_.unwatched;
    for (const std::size_t c : {1u, 5u, 2u, 6u, 3u, 4u, 0u}) {
      add(line_.after[step][c], letters[c]);
      rest -= line_.after[step][c];
    }
    add(rest, passing_letter);
    return bar;
  }

  const Graph& graph_;
  const Timeline line_;
  std::string text_;
};

}  // namespace

std::string timeline_text(const Graph& graph) { return Plot(graph).draw(); }

std::string timeline_json(const Graph& graph) {
  const Timeline line = timeline(graph);
  json steps = json::array();
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    const Graph::Step& step = graph.steps[i];
    steps.push_back({{"phase", to_string(step.phase)},
                     {"operation", step.operation},
                     {"module", step.module},
                     {"highest", line.highest[i]},
                     {"live", json_of(line.after[i])}});
  }
  const json report = {{"peak_bytes", line.peak},
                       {"peak_step", line.peak_step},
                       {"unwatched_bytes", line.unwatched},
                       {"steps", std::move(steps)}};
  return json_report(report);
}

}  // namespace tapehead::graph
