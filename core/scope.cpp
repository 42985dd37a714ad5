#include <tapehead/core/scope.h>

#include <mutex>
#include <unordered_set>

namespace tapehead {
namespace {

const std::string& root_path() {
  static const std::string root;
  return root;
}

// Paths are never dropped: a program has as many as it has modules, and nodes may outlive scopes.
const std::string& intern(std::string path) {
  static std::mutex mutex;
  static std::unordered_set<std::string> paths;
  const std::lock_guard lock(mutex);
  return *paths.insert(std::move(path)).first;
}

// `name` below the path `parent`.
const std::string& child_path(const std::string& parent, std::string_view name) {
  if (name.empty()) return parent;
  std::string joined = parent;
  if (!joined.empty()) joined += '.';
  joined += name;
  return intern(std::move(joined));
}

}  // namespace

const std::string& ModuleScope::path() { return innermost() ? *innermost()->path_ : root_path(); }

// The base has put this scope into the list: the path around it is that of the next outer one.
ModuleScope::ModuleScope(std::string_view name)
    : path_(&child_path(outer() ? *outer()->path_ : root_path(), name)) {}

}  // namespace tapehead
