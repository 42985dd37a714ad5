# To be sourced by scripts that build. Two builds at once would write the same files: this waits until
# the others are done. The lock is descriptor 9, and ends with it: 9>&- for what comes after the build.
build_trees=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build
mkdir -p "$build_trees"
exec 9>"$build_trees/.lock"
if command -v flock >/dev/null; then flock 9; fi
