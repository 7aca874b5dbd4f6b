#!/usr/bin/env bash
# Makes the Python environment of the examples, if it is not there or not up to date, and prints the path of its Python.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
wanted=$root/examples/pydantic-ai/requirements.txt
venv=$root/target/example-venv
if ! cmp -s "$wanted" "$venv/installed.txt"; then
  python3 -m venv "$venv" >&2
  "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$wanted" >&2
  cp "$wanted" "$venv/installed.txt"
fi
echo "$venv/bin/python"
