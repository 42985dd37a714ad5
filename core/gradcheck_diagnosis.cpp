// What a wrong gradient looks like tells what is wrong. Each pattern is looked for with evidence of
// its own; the order goes from faults of the function (where differences mislead) to faults of the
// rule.
#include <tapehead/core/gradcheck_subject.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tapehead::detail {
namespace {

bool close(double a, double b) { return std::abs(a - b) <= 1e-6 + 1e-4 * std::abs(b); }

bool all_close(const Values& a, const Values& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), close);
}

bool all_zero(const Values& a) {
  return std::all_of(a.begin(), a.end(), [](double v) { return v == 0; });
}

std::string text_of(double value) { return format_number(value, std::chars_format::general, 9); }

class Doctor {
 public:
  Doctor(const Evidence& evidence, GradcheckReport& report) : e_(evidence), report_(report) {}

  void examine() {
    fill_in_jacobian();
    for (const auto symptom :
         {&Doctor::kink, &Doctor::float32_noise, &Doctor::lost, &Doctor::left_out, &Doctor::factor,
          &Doctor::swapped_inputs, &Doctor::transposed})
      if ((this->*symptom)()) return;
  }

 private:
  const Values& analytic() const { return e_.analytic[e_.input]; }
  const Values& numeric() const { return e_.numeric[e_.input]; }
  const Shape& shape() const { return e_.subject.inputs()[e_.input].shape(); }

  bool found(Diagnosis diagnosis, std::string explanation) {
    report_.diagnosis = diagnosis;
    report_.explanation = std::move(explanation);
    return true;
  }

  // sum(upstream * f) with the worst element moved by `step`, less its value at the point.
  double rise(double step) const {
    std::vector<Values> point = e_.subject.point();
    point[e_.input][e_.element] += step;
    Values change = e_.subject.evaluate(point).values;
    for (std::size_t k = 0; k < change.size(); ++k) change[k] -= e_.subject.base().values[k];
    return dot(change, e_.upstream);
  }

  double slope(double eps) const {
    return dot(e_.upstream, e_.subject.differences(e_.input, e_.element, eps));
  }

  // The slopes on the two sides differ far more than the curvature of a smooth function explains,
  // and on the side without the kink the slope does not depend on the step: it is no noise.
  bool kink() {
    const double x = e_.subject.point()[e_.input][e_.element];
    const double step = e_.options.eps * std::max(1.0, std::abs(x));
    const double right = rise(step) / step, left = rise(-step) / -step;
    const double size = std::max(std::abs(right), std::abs(left)), slack = 1e-3 * size;
    if (!(std::abs(right - left) > 0.01 * size)) return false;
    const bool steady = std::abs(rise(0.6 * step) / (0.6 * step) - right) < slack ||
                        std::abs(rise(-0.6 * step) / (-0.6 * step) - left) < slack;
    const bool between = report_.analytic >= std::min(left, right) - slack &&
                         report_.analytic <= std::max(left, right) + slack;
    if (!steady || !between) return false;
    return found(Diagnosis::kink, "the slope is " + text_of(left) + " to the left and " +
                                      text_of(right) +
                                      " to the right: the function has a kink or a jump within the "
                                      "step; move the input away from it");
  }

  // In f64 the slopes of two slightly different steps agree to many digits.
  bool is_noisy() const {
    const double one = slope(e_.options.eps), other = slope(0.6 * e_.options.eps);
    const double third = slope(0.37 * e_.options.eps);
    const double scale = std::max({std::abs(one), std::abs(other), std::abs(third)});
    return std::abs(one - other) > 1e-4 * scale && std::abs(one - third) > 1e-4 * scale &&
           std::abs(other - third) > 1e-4 * scale;
  }

  bool float32_noise() {
    const std::string culprit = float32_operation();
    const double wide = slope(1e3 * e_.options.eps);
    const bool wide_step_agrees =
        std::abs(wide - report_.analytic) <= 0.01 * std::max(std::abs(wide), 1e-3);
    if (!wide_step_agrees || (culprit.empty() && !is_noisy())) return false;
    return found(Diagnosis::float32_noise,
                 "differences are noise at this step but agree at a step 1000 times as wide (" +
                     text_of(wide) + "): something inside computes in float32" +
                     (culprit.empty() ? "" : ", as " + culprit + " does") +
                     "; compute in f64, or check with a larger eps and tolerance");
  }

  // The first operation on the tape with an f32 result.
  std::string float32_operation() const {
    const Graph graph = Subject::Run(e_.subject).graph();
    for (const Graph::Node& node : graph.nodes)
      if (graph.values[static_cast<std::size_t>(node.output)].dtype == DType::f32)
        return node.operation;
    return {};
  }

  bool lost() {
    if (!all_zero(analytic()) || std::isnan(report_.analytic)) return false;
    return found(Diagnosis::lost,
                 "the tape's gradient is zero though the results change: the "
                 "gradient is lost on the way (detach, a pause, a rule that "
                 "returns zeros)");
  }

  bool factor() {
    const double weight = dot(numeric(), numeric());
    if (weight == 0) return false;
    const double c = dot(analytic(), numeric()) / weight;
    Values scaled = numeric();
    for (double& v : scaled) v *= c;
    if (!all_close(analytic(), scaled)) return false;
    if (close(c, -1)) return found(Diagnosis::sign, "the tape's gradient has the wrong sign");
    return found(Diagnosis::constant_factor,
                 "the tape's gradient is " + text_of(c) + " times the right one");
  }

  bool swapped_inputs() {
    for (std::size_t other = 0; other < e_.numeric.size(); ++other)
      if (other != e_.input && all_close(analytic(), e_.numeric[other]))
        return found(Diagnosis::swapped_inputs,
                     "this is the gradient of argument " + std::to_string(other) +
                         ": the rule returns its gradients in the wrong order");
    return false;
  }

  // The right numbers, read as if two dims had been exchanged. For a square the places differ; else
  // the transposed gradient was put into the input's shape.
  bool transposed() {
    for (int a = 0; a < shape().rank(); ++a)
      for (int b = a + 1; b < shape().rank(); ++b) {
        if (!all_close(analytic(), exchanged(numeric(), a, b))) continue;
        return found(Diagnosis::transposed,
                     "the tape's gradient holds the right numbers with dims " + std::to_string(a) +
                         " and " + std::to_string(b) + " exchanged");
      }
    return false;
  }

  Values exchanged(const Values& values, int a, int b) const {
    Shape to = shape();
    std::swap(to[a], to[b]);
    Values result(values.size());
    const Strides strides = contiguous_strides(shape());
    for (std::size_t k = 0; k < values.size(); ++k) {
      Dims index = unravel(k, to);
      std::swap(index[a], index[b]);
      std::int64_t place = 0;
      for (int i = 0; i < index.rank(); ++i) place += index[i] * strides[i];
      result[k] = values[static_cast<std::size_t>(place)];
    }
    return result;
  }

  // How many elements of one result that depend on the worst element count in full on the tape, and
  // how many not at all.
  struct Tally {
    std::size_t counted = 0, missed = 0;
  };

  // One for each result; none when an element counts with another slope.
  std::vector<Tally> tallies() const {
    const std::vector<Segment>& segments = e_.subject.base().segments;
    const Values right = e_.subject.differences(e_.input, e_.element, e_.options.eps);
    Subject::Run run(e_.subject);
    std::vector<Tally> tallies(segments.size());
    std::size_t segment = 0;
    for (std::size_t k = 0, looked_at = 0; k < right.size(); ++k) {
      while (segment + 1 < segments.size() && segments[segment + 1].begin <= k) ++segment;
      if (std::abs(right[k]) < 1e-6) continue;
      if (looked_at++ == jacobian_rows_at_most) break;
      const double got = jacobian_row(run, k)[e_.input][e_.element];
      if (close(got, right[k])) ++tallies[segment].counted;
      else if (got == 0) ++tallies[segment].missed;
      else return {};
    }
    return tallies;
  }

  // Whether the tape has a derivative of a result that does not depend on the input's element: then
  // results were taken for others, and none is merely left out.
  bool reaches_too_far() const {
    const std::size_t count = e_.subject.base().values.size();
    Subject::Run run(e_.subject);
    std::vector<Values> rows;
    for (std::size_t k = 0; k < std::min(count, jacobian_rows_at_most); ++k)
      rows.push_back(jacobian_row(run, k)[e_.input]);
    for (std::size_t c = 0; c < std::min(analytic().size(), jacobian_rows_at_most); ++c) {
      const Values right = e_.subject.differences(e_.input, c, e_.options.eps);
      for (std::size_t k = 0; k < rows.size(); ++k)
        if (std::abs(right[k]) < 1e-6 && std::abs(rows[k][c]) > 1e-4) return true;
    }
    return false;
  }

  // Of the results that depend on the element, some count in full and the others not at all.
  bool left_out() {
    std::size_t counted = 0, missed = 0;
    bool within_one_result = false;
    for (const Tally& tally : tallies()) {
      counted += tally.counted;
      missed += tally.missed;
      within_one_result = within_one_result || (tally.counted > 0 && tally.missed > 0);
    }
    if (counted == 0 || missed == 0 || reaches_too_far()) return false;
    const std::string evidence = "the element reaches " + std::to_string(counted + missed) +
                                 " elements of results, but only " + std::to_string(counted) +
                                 " of them count: ";
    if (within_one_result)
      return found(Diagnosis::missing_reduction,
                   evidence + "a sum over a broadcast (or repeated) dim is missing");
    return found(Diagnosis::lost,
                 evidence + "the gradient of a whole result is lost on the way (detach, a pause)");
  }

  std::vector<Values> jacobian_row(Subject::Run& run, std::size_t result) const {
    Values unit(e_.upstream.size(), 0.0);
    unit[result] = 1;
    return run.gradients(unit);
  }

  // The rows around the result whose derivative is most wrong, the columns around the element.
  void fill_in_jacobian() {
    const Values right = e_.subject.differences(e_.input, e_.element, e_.options.eps);
    Subject::Run run(e_.subject);
    std::size_t worst_row = 0;
    double worst = -1;
    for (std::size_t k = 0; k < std::min(right.size(), jacobian_rows_at_most); ++k) {
      const double error = std::abs(jacobian_row(run, k)[e_.input][e_.element] - right[k]);
      if (error > worst) worst_row = k, worst = error;
    }
    JacobianExcerpt& excerpt = report_.jacobian;
    const std::vector<Segment>& segments = e_.subject.base().segments;
    while (excerpt.output + 1 < segments.size() && segments[excerpt.output + 1].begin <= worst_row)
      ++excerpt.output;
    const Segment& segment = segments[excerpt.output];
    const auto rows =
        window(worst_row - segment.begin, static_cast<std::size_t>(numel(segment.shape)));
    const auto columns = window(e_.element, analytic().size());
    for (std::size_t c = columns[0]; c < columns[1]; ++c)
      excerpt.columns.push_back(unravel(c, shape()));
    for (std::size_t r = rows[0]; r < rows[1]; ++r) {
      excerpt.rows.push_back(unravel(r, segment.shape));
      const Values row = jacobian_row(run, segment.begin + r)[e_.input];
      excerpt.analytic.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(columns[0]),
                                    row.begin() + static_cast<std::ptrdiff_t>(columns[1]));
      excerpt.numeric.emplace_back();
      for (std::size_t c = columns[0]; c < columns[1]; ++c)
        excerpt.numeric.back().push_back(
            e_.subject.differences(e_.input, c, e_.options.eps)[segment.begin + r]);
    }
  }

  // [begin, end) of at most five positions around `middle`.
  static std::array<std::size_t, 2> window(std::size_t middle, std::size_t count) {
    const std::size_t width = std::min<std::size_t>(5, count);
    const std::size_t begin = std::min(middle > 2 ? middle - 2 : 0, count - width);
    return {begin, begin + width};
  }

  static constexpr std::size_t jacobian_rows_at_most = 256;  // one reverse walk each

  const Evidence& e_;
  GradcheckReport& report_;
};

}  // namespace

void diagnose(const Evidence& evidence, GradcheckReport& report) {
  Doctor(evidence, report).examine();
}

}  // namespace tapehead::detail
