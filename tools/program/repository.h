// The repository that the program was built from: the text that it trains on when none is given.
#pragma once

#include <filesystem>
#include <vector>

namespace tapehead::program {

/// Its sources and documents in the order of their paths. IoError when the folder that the build
/// knew is not there any more and neither the current folder nor one above it is a checkout.
std::vector<std::filesystem::path> repository_files();

}  // namespace tapehead::program
