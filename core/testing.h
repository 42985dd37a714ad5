// For tests of rules: a hook between the reverse walk and the rules, through which a test runs each
// rule wrongly on purpose and shows that its gradient check finds out. Internal.
#pragma once

#include <tapehead/core/node.h>
#include <tapehead/core/thread_scope.h>

#include <vector>

namespace tapehead::testing {

/// While it lives, the walks of this thread call run() in place of each rule. Of several hooks the
/// newest that lives is called.
class RuleHook : public ThreadScope<RuleHook> {
 public:
  RuleHook() = default;
  virtual ~RuleHook() = default;

  /// In place of node.backward(g, wanted).
  virtual Grads run(Node& node, Tensor g, const Wanted& wanted) = 0;

  /// The hook of this thread, or null.
  static RuleHook* current() { return innermost(); }

 protected:
  /// The saved tensors that the node kept.
  static std::vector<Saved*> kept_by(const Node& node);
  /// Puts `other` in the place of what the slot kept.
  static void replace(Saved& saved, Tensor other);
};

}  // namespace tapehead::testing
