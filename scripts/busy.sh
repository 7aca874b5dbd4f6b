#!/usr/bin/env bash
# Runs a command RUNS times (default 10) beside one busy loop per core; fails if one run fails: busy.sh make test
set -uo pipefail
loops=()
trap 'kill "${loops[@]}" 2>/dev/null' EXIT
for _ in $(seq "$(nproc)"); do
  while :; do :; done &
  loops+=($!)
done
failed=0
for run in $(seq "${RUNS:-10}"); do
  begin=$SECONDS
  if "$@"; then verdict=passed; else verdict=FAILED; failed=$((failed + 1)); fi
  echo "== run $run of ${RUNS:-10} $verdict after $((SECONDS - begin)) s"
done
echo "$failed of ${RUNS:-10} runs failed"
[ "$failed" -eq 0 ]
