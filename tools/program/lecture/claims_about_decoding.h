// The part of group 12 that counts what decoding costs.
#pragma once

#include "check.h"

#include <tapehead/core/random.h>

namespace tapehead::program::lecture {

void claims_about_decoding(Group& group, Generator& generator);

}  // namespace tapehead::program::lecture
