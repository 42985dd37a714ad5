#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/graph/trace.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace tapehead::graph {
namespace {

using nlohmann::json;

json slice(std::string name, int track, std::size_t begin, std::size_t end) {
  return {{"ph", "X"},   {"pid", 1},          {"tid", track}, {"name", std::move(name)},
          {"ts", begin}, {"dur", end - begin}};
}

class Trace {
 public:
  std::string write(const Graph& graph) {
    const Timeline line = timeline(graph, "trace");
    phases(graph);
    for (std::size_t i = 0; i < graph.steps.size(); ++i) {
      const Graph::Step& step = graph.steps[i];
      // What happens behind the last operation belongs to none.
      const std::string name(step.operation.empty() ? to_string(step.phase)
                                                    : std::string_view(step.operation));
      json event = slice(name, 2, i, i + 1);
      event["cat"] = to_string(step.phase);
      event["args"] = {{"module", step.module}, {"node", step.node}, {"highest", line.highest[i]}};
      add(event);
      add(counter(line, i));
    }
    return "{\"traceEvents\": [\n" + std::move(text_) + "\n]}\n";
  }

 private:
  void phases(const Graph& graph) {
    for (std::size_t begin = 0, end; begin < graph.steps.size(); begin = end) {
      const Graph::Phase phase = graph.steps[begin].phase;
      end = begin + 1;
      while (end < graph.steps.size() && graph.steps[end].phase == phase) ++end;
      add(slice(std::string(to_string(phase)), 1, begin, end));
    }
  }

  static json counter(const Timeline& line, std::size_t step) {
    json live = json_of(line.after[step]);
    live["unwatched"] = line.unwatched;
    return {{"ph", "C"}, {"pid", 1}, {"name", "live bytes"}, {"ts", step + 1}, {"args", live}};
  }

  void add(const json& event) { text_ += (text_.empty() ? "" : ",\n") + json_line(event); }

  std::string text_;
};

}  // namespace

std::string to_trace(const Graph& graph) { return Trace().write(graph); }

}  // namespace tapehead::graph
