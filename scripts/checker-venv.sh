#!/usr/bin/env bash
# Creates the Python environment of the tests' own checkers if it is missing or out of date, and prints the path of its
# Python.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
wanted=$root/tests/e2e/requirements.txt
venv=$root/target/checker-venv
# The lock serves tests that run in parallel.
mkdir -p "$root/target"
exec 9>"$root/target/checker-venv.lock"
flock 9
if ! cmp -s "$wanted" "$venv/installed.txt"; then
  python3 -m venv "$venv" >&2
  "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$wanted" >&2
  cp "$wanted" "$venv/installed.txt"
fi
echo "$venv/bin/python"
