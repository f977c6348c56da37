#!/usr/bin/env bash
# Run what takes long out of sight: say now and then that it is still at work, and show the end of what it said if it fails.
#
#   tools/at-length.sh LOG COMMAND...     LOG gets all it says; the exit status is COMMAND's
set -euo pipefail

log=$1
shift
lines_shown=40
seconds_between=30

mkdir -p "$(dirname "$log")"

# `read` waits without a process of its own, so that nothing is left to hold our output open.
still_at_work() {
  trap 'exit 0' TERM
  while kill -0 "$$" 2>/dev/null; do
    read -rt "$seconds_between" <> <(:) || true
    printf '    ... %s s so far\n' "$SECONDS" >&2
  done
}

SECONDS=0
still_at_work &
watch=$!
trap 'kill "$watch" 2>/dev/null || true' EXIT

status=0
"$@" >"$log" 2>&1 </dev/null || status=$?
if [ "$status" = 0 ]; then exit 0; fi

said() { grep -qE "$1" "$log"; }

tail -n "$lines_shown" "$log" >&2
printf '\n==> that failed; all it said is in %s\n' "$log" >&2
if said 'No space left on device|ENOSPC|enough free space'; then
  printf '==> the disk is full: make room and run make again, it goes on where it stopped\n' >&2
elif said 'CERTIFICATE_VERIFY_FAILED|certificate verify failed|SELF_SIGNED|[Ss]elf.signed certificate|UNABLE_TO_[A-Z_]*CERT|UNABLE_TO_VERIFY'; then
  printf '==> a certificate is not known. If the network has one of its own, name it for pip and for Node, as in\n' >&2
  printf '    make PIP_CERT=/etc/ssl/certs/ca-certificates.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt ...\n' >&2
elif said 'Temporary failure|Could not resolve|Name or service not known|Name does not resolve|EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|[Nn]etwork is unreachable|Failed to establish a new connection|Could not connect|[Tt]imed out'; then
  printf '==> a server could not be reached. This needs the Debian archive, pypi.org and registry.npmjs.org, or mirrors of\n    them; the tests on Ubuntu need cdn.playwright.dev too;\n' >&2
  printf '    run make again once they are there (behind a proxy: with http_proxy and https_proxy set), it goes on where it stopped\n' >&2
fi
exit "$status"
