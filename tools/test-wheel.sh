#!/usr/bin/env bash
# Build sdist and wheel, install each where there is no Node, and see that everything came along.
#
#   tools/test-wheel.sh DIR      DIR is emptied and holds what is built and installed
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(realpath -m "${1:?"a folder to work in"}")
venv=$(realpath "${VENV:-.venv}")
root=$PWD
rm -rf "$dir"
mkdir -p "$dir/no-node"

echo '==> building sdist and wheel' >&2
"$venv/bin/python" -m build --no-isolation --outdir "$dir/dist" "$root" >"$dir/build.log" 2>&1 || { cat "$dir/build.log"; exit 1; }

# A PATH with what compiles C, and without Node: the sdist must carry the panel ready-made.
for tool in cmake ctest cc gcc c++ as ld ar ranlib nm objcopy objdump strip make gmake ninja sh bash env sed uname; do
  path=$(command -v "$tool") && ln -sf "$(realpath "$path")" "$dir/no-node/$tool"
done
# CMake finds its modules beside the real binary; pip's wrapper would look for its package.
export PATH=$dir/no-node

for kind in whl tar.gz; do
  echo "==> installing $(basename "$dir"/dist/*."$kind")" >&2
  "$venv/bin/python" -m venv "$dir/from-$kind"
  "$dir/from-$kind/bin/python" -m pip --disable-pip-version-check install -qq "$dir"/dist/*."$kind"
  (cd "$dir" && "$dir/from-$kind/bin/python" "$root/tools/check_installed.py")
done
