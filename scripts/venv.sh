#!/usr/bin/env bash
# Creates the Python environment DIRECTORY with the packages of REQUIREMENTS if it is missing or out of date, and prints the
# path of its Python. Usage: scripts/venv.sh REQUIREMENTS DIRECTORY; PYTHON names another one than python3.
set -euo pipefail
wanted=$1
venv=$2
if ! cmp -s "$wanted" "$venv/installed.txt"; then
  # Archives with the hashes of REQUIREMENTS only, and none that is built here: that would run its code.
  "${PYTHON:-python3}" -m venv --clear "$venv" >&2
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes --only-binary :all: -r "$wanted" >&2
  cp "$wanted" "$venv/installed.txt"
fi
echo "$venv/bin/python"
