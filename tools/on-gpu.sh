#!/usr/bin/env bash
# What has to be seen on a GPU, in parts that each fit into ten minutes of a borrowed machine.
#
#   tools/on-gpu.sh check            the tests that need a GPU, every way to get memory, costs, 700 calls
#   tools/on-gpu.sh shares [GROUP…]  GPU time against native (default: saturated processes cell handover small alone)
#   tools/on-gpu.sh meter [ARGS…]    the meter against known work
#
# Environment: OUT (where results go, default benchmarks/results), PYTHON (default python3; needs this package's
# dependencies, torch for training loops, and the libraries built into jupyter_vgpu/lib), BUDGET (seconds, default 500).
# Changes no setting of the card.
set -euo pipefail
cd "$(dirname "$0")/.."

part=${1:?"check, shares or meter"}
shift
python=${PYTHON:-python3}
out=${OUT:-benchmarks/results}
budget=${BUDGET:-500}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1

case $part in
  check)
    status=0
    # The checkout's own settings name plug-ins that a borrowed machine need not have.
    "$python" -m pytest tests/gpu -q -p no:cacheprovider -c /dev/null --rootdir="$PWD" --import-mode=importlib -W ignore \
      --durations=5 || status=$?
    "$python" benchmarks/memory/matrix.py || status=$?
    "$python" benchmarks/costs/run.py --out "$out" || status=$?
    "$python" benchmarks/sim/calls run "$out/calls-gpu.json" || status=$?
    exit "$status"
    ;;
  shares)
    [ $# -gt 0 ] || set -- saturated processes cell handover small alone
    groups=()
    for group; do groups+=(--only "$group"); done
    "$python" benchmarks/governor/run.py --budget "$budget" --out "$out/governor-gpu.json" "${groups[@]}"
    ;;
  meter)
    "$python" benchmarks/meter/run.py --budget "$budget" --out "$out" "$@"
    ;;
  *)
    echo "$part: check, shares or meter" >&2
    exit 2
    ;;
esac
