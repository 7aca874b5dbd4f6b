#!/usr/bin/env bash
# Writes every requirements.txt anew from the requirements.in beside it: all packages that are needed, on every platform, with
# the hashes of their archives. Versions that are there already stay; UPGRADE=name renews one. Needs uv in PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*requirements.in' | while read -r source; do
  (
    cd "$(dirname "$source")"
    uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
      ${UPGRADE:+--upgrade-package "$UPGRADE"} -o requirements.txt requirements.in
  )
done
echo "next: scripts/supply.py --add"
