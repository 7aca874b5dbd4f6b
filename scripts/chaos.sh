#!/usr/bin/env bash
# Three nodes, Postgres and Redis under faults for MINUTES (10), or with the bug PLANT until it is found. What it prints
# last is the verdict, and it fails if that is not all zeros.
set -euo pipefail
cd "$(dirname "$0")/.."
features=""
[ -z "${PLANT:-}" ] || features="--features planted"
# Built first and run by itself, so that cargo has not the last word.
test=$(cargo test --release --test chaos $features --no-run --message-format=json |
  jq -r 'select(.reason == "compiler-artifact" and .target.name == "chaos") | .executable | select(.)' | tail -n 1)
exec "$test" --ignored --exact for_long --nocapture
