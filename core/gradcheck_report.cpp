// How a report of gradcheck reads.
#include <tapehead/core/gradcheck.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <locale>
#include <sstream>

namespace tapehead {
namespace {

std::size_t width_of(const std::vector<Dims>& indices) {
  std::size_t width = 10;  // of a number: -1.234e-05
  for (const Dims& index : indices) width = std::max(width, to_string(index).size());
  return width;
}

void print_matrix(std::ostream& out, std::string_view title, const JacobianExcerpt& excerpt,
                  const std::vector<std::vector<double>>& entries) {
  const auto row_width = static_cast<int>(width_of(excerpt.rows));
  const auto width = static_cast<int>(width_of(excerpt.columns));
  out << "\n  " << title << "\n    " << std::string(static_cast<std::size_t>(row_width), ' ');
  for (const Dims& column : excerpt.columns) out << "  " << std::setw(width) << to_string(column);
  for (std::size_t r = 0; r < entries.size(); ++r) {
    out << "\n    " << std::setw(row_width) << to_string(excerpt.rows[r]);
    for (const double entry : entries[r])
      out << "  " << std::setw(width) << std::setprecision(4) << entry;
  }
}

void print_jacobian(std::ostream& out, const GradcheckReport& report) {
  const JacobianExcerpt& excerpt = report.jacobian;
  if (excerpt.rows.empty()) return;
  out << "\nJacobian around it, elements of result " << excerpt.output << " down, of "
      << report.input_name << " across";
  print_matrix(out, "from the tape:", excerpt, excerpt.analytic);
  print_matrix(out, "from differences:", excerpt, excerpt.numeric);
}

}  // namespace

std::string to_string(const GradcheckReport& report) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << report.check << ": " << (report.ok ? "ok" : "FAILED");
  if (report.tolerance > 0 || std::isnan(report.tolerance))
    out << ": " << (report.ok ? "largest error at " : "") << report.input_name << ' '
        << to_string(report.element) << ": the tape gives " << std::setprecision(12)
        << report.analytic << ", differences give " << report.numeric << " (tolerance "
        << std::setprecision(3) << report.tolerance << ")";
  if (report.diagnosis != Diagnosis::none)
    out << "\ndiagnosis: " << to_string(report.diagnosis) << ": " << report.explanation;
  print_jacobian(out, report);
  return out.str();
}

}  // namespace tapehead
