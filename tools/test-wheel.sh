#!/usr/bin/env bash
# Build sdist and wheel, install each where there is no Node, and see that everything came along.
#
#   tools/test-wheel.sh DIR      DIR holds what is built and installed; emptied, but for the cross compiler
#
# The wheel is built as a release is: by zig against glibc 2.17, so that one wheel serves every Linux of the last
# decade. The sdist is compiled by the machine's own compiler when it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(realpath -m "${1:?"a folder to work in"}")
venv=$(realpath "${VENV:-.venv}")
root=$PWD
arch=$(uname -m)
zig=$dir/zig

if [ ! -x "$zig/bin/python-zig" ]; then
  echo '==> installing the cross compiler' >&2
  rm -rf "$zig"
  mkdir -p "$dir"
  "$venv/bin/python" -m venv "$zig"
  "$zig/bin/python" -m pip --disable-pip-version-check install -qq 'ziglang>=0.13' auditwheel
fi
rm -rf "$dir"/{dist,no-node,from-whl,from-tar.gz}
mkdir -p "$dir/no-node"
# zig switches a sanitizer on in what is not optimised; its linker knows -Bsymbolic, not -Bsymbolic-functions.
cat >"$dir/zig-cc" <<END
#!/usr/bin/env bash
exec "$zig/bin/python" -m ziglang cc -target $arch-linux-gnu.2.17 -fno-sanitize=undefined "\${@/%-Bsymbolic-functions/-Bsymbolic}"
END
chmod +x "$dir/zig-cc"

echo '==> building sdist and wheel' >&2
CC=$dir/zig-cc JUPYTER_VGPU_WHEEL_PLATFORM=manylinux_2_17_$arch.manylinux2014_$arch \
  "$venv/bin/python" -m build --no-isolation --outdir "$dir/dist" "$root" >"$dir/build.log" 2>&1 ||
  { cat "$dir/build.log"; exit 1; }
touch "$zig/bin/python-zig" && chmod +x "$zig/bin/python-zig"

"$zig/bin/auditwheel" show "$dir"/dist/*.whl >"$dir/audit.log" 2>&1 || { cat "$dir/audit.log"; exit 1; }
tr '\n' ' ' <"$dir/audit.log" | grep -q "consistent with the *following platform tag: *\"manylinux_2_\(5\|12\|17\)_$arch\"" ||
  { echo "the wheel asks for more than glibc 2.17:"; cat "$dir/audit.log"; exit 1; }

# A PATH with what compiles C, and without Node: the sdist must carry the panel ready-made.
for tool in cc gcc as ld ar ranlib nm objcopy objdump strip make sh bash env sed uname cmake; do
  path=$(command -v "$tool") || continue
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$path" >"$dir/no-node/$tool"
  chmod +x "$dir/no-node/$tool"
done

for kind in whl tar.gz; do
  echo "==> installing $(basename "$dir"/dist/*."$kind") without Node" >&2
  "$venv/bin/python" -m venv "$dir/from-$kind"
  PATH=$dir/no-node "$dir/from-$kind/bin/python" -m pip --disable-pip-version-check install -qq "$(echo "$dir"/dist/*."$kind")[hub]"
  (cd "$dir" && "$dir/from-$kind/bin/python" "$root/tools/check_installed.py")
done
