#!/usr/bin/env bash
# Creates the Python environment of the tests' own checkers if it is missing or out of date, and prints the path of its
# Python.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# The lock serves tests that run in parallel.
mkdir -p "$root/target"
exec 9>"$root/target/checker-venv.lock"
flock 9
"$root/scripts/venv.sh" "$root/tests/e2e/requirements.txt" "$root/target/checker-venv"
