#include <tapehead/core/testing.h>

namespace tapehead::testing {

std::vector<Saved*> RuleHook::kept_by(const Node& node) {
  std::vector<Saved*> kept;
  for (Saved* saved = node.first_saved_; saved; saved = saved->next_)
    if (saved->kept()) kept.push_back(saved);
  return kept;
}

void RuleHook::replace(Saved& saved, Tensor other) {
  saved.version_ = other.storage()->version();
  saved.tensor_ = std::move(other);
}

}  // namespace tapehead::testing
