#include <tapehead/core/scope.h>

#include <mutex>
#include <unordered_set>

namespace tapehead {
namespace {

const std::string& root_path() {
  static const std::string root;
  return root;
}

// Null means the root, so that the thread-local needs no dynamic initialisation.
constinit thread_local const std::string* current = nullptr;

// Paths are never dropped: a program has as many as it has modules, and nodes may outlive scopes.
const std::string& intern(std::string path) {
  static std::mutex mutex;
  static std::unordered_set<std::string> paths;
  const std::lock_guard lock(mutex);
  return *paths.insert(std::move(path)).first;
}

}  // namespace

const std::string& ModuleScope::path() { return current ? *current : root_path(); }

ModuleScope::ModuleScope(std::string_view name) : previous_(current) {
  if (name.empty()) return;
  std::string joined = path();
  if (!joined.empty()) joined += '.';
  joined += name;
  current = &intern(std::move(joined));
}

ModuleScope::~ModuleScope() { current = previous_; }

ModuleScope::Restore::Restore(const std::string& interned_path) : previous_(current) {
  current = &interned_path;
}

ModuleScope::Restore::~Restore() { current = previous_; }

}  // namespace tapehead
