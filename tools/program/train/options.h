// What a training run is told to do. Everything that decides its losses is stored with it, so that
// --resume continues the same run.
#pragma once

#include <tapehead/core/dtype.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tapehead::program {

struct TrainOptions {
  std::vector<std::string> text = {};  ///< files; the repository's own when empty
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t dim = 128;
  std::int64_t context = 112;              ///< unlike dim, so that graph.html tells T from d
  std::int64_t batch = 8;                  ///< of each rank
  std::optional<std::int64_t> steps = {};  ///< length of the run, or else
  double minutes = 3;                      ///< its length in time
  double lr = 3e-3;                        ///< at the end of the warm-up
  std::uint64_t seed = 1;
  std::int64_t threads = 0;  ///< 0: one for each core, shared among the ranks that use the same
  double dropout = 0;
  std::string dtype = "f32";
};

/// The options by name, as they are stored.
nlohmann::json to_json(const TrainOptions& options);
/// ValueError when an option is missing or of another type, as 2.5 layers; `source` stands in the
/// text.
TrainOptions train_options_from_json(const nlohmann::json& stored, const std::string& source);

/// The names of all options.
std::vector<std::string> train_option_names();

/// ValueError when the option `name` is not in `options` what it is in `stored`, where `owner` was
/// started with that.
void check_same_option(const std::string& name, const TrainOptions& options,
                       const TrainOptions& stored, const std::string& owner);

/// ValueError that names the first option which cannot be: sizes and rates that are not positive,
/// too many threads or minutes, heads that do not divide dim, a dtype that is not floating.
void check(const TrainOptions& options);

/// DType::f32 or DType::f64.
DType floating_dtype(const TrainOptions& options);

}  // namespace tapehead::program
