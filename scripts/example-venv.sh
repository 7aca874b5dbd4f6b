#!/usr/bin/env bash
# Creates the Python environment of the examples if it is missing or out of date, and prints the path of its Python.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
exec "$root/scripts/venv.sh" "$root/examples/pydantic-ai/requirements.txt" "$root/target/example-venv"
