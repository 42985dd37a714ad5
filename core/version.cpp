#include <tapehead/core/version.h>

namespace tapehead {

int version() { return TAPEHEAD_VERSION; }

}  // namespace tapehead
