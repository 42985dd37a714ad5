// The module path: which module is running on this thread, as dotted names ("blocks.0.attn").
// Nodes and errors carry it. Entering a scope is cheap (an interned string), so modules always do.
#pragma once

#include <tapehead/core/thread_scope.h>

#include <string>
#include <string_view>

namespace tapehead {

/// While it lives, operations on this thread are recorded under `name`, below the enclosing scope.
/// An empty name adds nothing, so that an unnamed root module has no level of its own.
class ModuleScope : public ThreadScope<ModuleScope> {
 public:
  /// Enters the scope.
  explicit ModuleScope(std::string_view name);

  /// The current path; the reference stays valid for the life of the process (paths are interned).
  static const std::string& path();

  /// Restores a recorded path while it lives: the reverse walk runs each rule in the scope of the
  /// operation that it differentiates.
  class Restore;

 private:
  struct Interned {
    const std::string& path;
  };
  explicit ModuleScope(Interned interned) : path_(&interned.path) {}

  const std::string* const path_;
};

/// The scope of a recorded path.
class ModuleScope::Restore {
 public:
  /// A path that path() returned.
  explicit Restore(const std::string& interned_path) : scope_(Interned{interned_path}) {}

 private:
  const ModuleScope scope_;
};

}  // namespace tapehead
