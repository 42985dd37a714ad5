// Writes the samples into the folder that it is given, each as NAME.json, and the answers to the
// what-if questions as whatif.json, which is tests/data/whatif.json unless the library has changed.
#include <tapehead/graph/json.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "../support/viewer_samples.h"

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: tapehead_viewer_samples FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = arguments[1];
  const auto samples = tapehead::tests::viewer_samples();
  for (const auto& [name, graph] : samples)
    tapehead::graph::write_json(graph, folder / (name + ".json"));
  std::ofstream file(folder / "whatif.json");
  file << tapehead::tests::what_if_answers(samples);
  return file.flush() ? 0 : 1;
}
