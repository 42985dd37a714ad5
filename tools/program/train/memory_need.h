// What training needs in memory, known before it is allocated.
#pragma once

#include <cstdint>

#include "options.h"

namespace tapehead::program {

/// Bytes that a training step holds at least, found by dry runs; the largest int64 when there are
/// more. ValueError when already those of two layers do not fit in 63 bits.
std::int64_t least_training_bytes(const TrainOptions& options, std::int64_t vocabulary_size);

/// ValueError when that is more than the machine has, swap included.
void check_memory(const TrainOptions& options, std::int64_t vocabulary_size);

}  // namespace tapehead::program
