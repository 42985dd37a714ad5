#include <tapehead/core/parallel.h>
#include <tapehead/nn/process_group.h>

#include <algorithm>
#include <cstdlib>

namespace tapehead::nn {
namespace {

struct Done final : Work {
  bool done() override { return true; }
  void wait() override {}
};

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string line_or_nothing(const std::vector<std::string>& lines, std::size_t i) {
  return i < lines.size() ? "\"" + lines[i] + "\"" : "nothing";
}

std::string difference(int rank, const std::vector<std::string>& theirs,
                       const std::vector<std::string>& first) {
  std::size_t i = 0;
  while (i < theirs.size() && i < first.size() && theirs[i] == first[i]) ++i;
  return "rank " + std::to_string(rank) + " has " + line_or_nothing(theirs, i) +
         " where rank 0 has " + line_or_nothing(first, i);
}

}  // namespace

RankLostError::RankLostError(std::string_view operation, int rank)
    : StateError(operation, "rank " + std::to_string(rank) + " has ended"), rank_(rank) {}

std::unique_ptr<Work> OneProcess::all_reduce(const Tensor&) { return std::make_unique<Done>(); }

int OneProcess::share_of_cores() const { return num_threads(); }

std::optional<int> launched_rank() {
  // Of Open MPI, of MPICH and its kin, and of what starts processes by PMIx.
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (const char* rank = std::getenv(variable)) return std::atoi(rank);
  return {};
}

std::vector<double> summed(ProcessGroup& group, const std::vector<double>& numbers) {
  const Tensor sums = from_vector(numbers, {static_cast<std::int64_t>(numbers.size())});
  group.all_reduce(sums)->wait();
  return sums.to_vector();
}

void check_agreement(ProcessGroup& group, std::string_view operation,
                     const std::vector<std::string>& lines) {
  const std::vector<std::string> texts = group.all_gather(joined(lines));
  const auto other = std::find_if(texts.begin(), texts.end(),
                                  [&](const std::string& text) { return text != texts[0]; });
  if (other == texts.end()) return;
  throw StateError(operation,
                   "the ranks do not agree: " + difference(static_cast<int>(other - texts.begin()),
                                                           split(*other), split(texts[0])));
}

}  // namespace tapehead::nn
