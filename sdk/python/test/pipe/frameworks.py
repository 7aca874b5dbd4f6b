"""Streams of packages, in the versions of `sets`: the newest, and with FULL=1 the oldest as well."""

import json
import os
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[3]
_SOURCES = _ROOT / "sdk/python/src"
VERSIONS = ("oldest", "newest") if "FULL" in os.environ else ("newest",)


@lru_cache
def streams(framework: str, version: str) -> dict[str, Any]:
    """What the mappers make of the streams of a framework, by the names of the streams."""
    wanted = _HERE / "sets" / f"{framework}-{version}" / "requirements.txt"
    venv = _ROOT / "target" / f"pipe-{framework}-{version}"
    made = subprocess.run([_ROOT / "scripts/venv.sh", wanted, venv], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    program = _HERE / "streams" / f"{framework.replace('-', '_')}_streams.py"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(_SOURCES)}
    python = made.stdout.strip()
    ended = subprocess.run([python, program], capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    read: dict[str, Any] = json.loads(ended.stdout)
    return read
