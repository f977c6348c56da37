#!/usr/bin/env bash
# Run the tests of the package, without browser and simulated board, against the lowest versions that pyproject.toml allows.
#
#   tools/test-oldest.sh DIR     DIR holds the virtual environment, kept for the next run
#
# Needs `make native` to have run, and VENV for its Python and its proxy. WORKERS says how many share the tests (2).
set -euo pipefail
cd "$(dirname "$0")/.."

pins=.ci/oldest-dependencies/requirements.txt
dir=${1:?"a folder for the virtual environment"}
stamp=$dir/installed
sum=$(cat "$pins" pyproject.toml "$0" | sha256sum)

if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$sum" ]; then
  echo "==> installing the oldest dependencies into $dir" >&2
  rm -rf "$dir"
  mkdir -p "$dir"
  "${VENV:-.venv}/bin/python" -m venv "$dir"
  # The package itself comes from this checkout, compiled already; the test runners are the newest.
  "$dir/bin/python" -m pip --disable-pip-version-check install -qq \
    --requirement "$pins" --constraint "$pins" \
    cuda-bindings httpx hypothesis ipykernel jupyterhub-kubespawner psutil 'psycopg[binary]' pytest pytest-asyncio 'pytest-jupyter[server]' \
    "pytest-rerunfailures>=16.7" pytest-timeout "pytest-xdist>=3.7" \
    hatchling editables
  JUPYTER_VGPU_NO_PANEL=1 "$dir/bin/python" -m pip --disable-pip-version-check install -qq \
    --no-build-isolation --no-deps --editable .
  echo "$sum" >"$stamp"
fi

rooms=()
for room in unit agent cli hub ledger service server magic provisioner slice; do
  if compgen -G "tests/$room/test_*.py" >/dev/null; then rooms+=("tests/$room"); fi
done
export PATH=$(cd "$dir/bin" && pwd):$PATH
"$dir/bin/python" -m pytest -n "${WORKERS:-2}" -m 'not slow and not gpu and not browser' "${rooms[@]}"
