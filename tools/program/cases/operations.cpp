#include "operations.h"

namespace tapehead::program {

const Operations& operations() {
  static const Operations table = [] {
    Operations all;
    add_elementwise(all);
    add_reductions(all);
    add_linear_algebra(all);
    add_shapes(all);
    add_indexing(all);
    add_networks(all);
    add_losses(all);
    add_attention(all);
    add_optimizers(all);
    return all;
  }();
  return table;
}

}  // namespace tapehead::program
