"""Streams of packages, in the versions of `sets`: the newest, and with FULL=1 the oldest as well."""

import json
import os
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.environments import python_of

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[3]
_SOURCES = _ROOT / "sdk/python/src"


@lru_cache
def streams(framework: str, version: str) -> dict[str, Any]:
    """What the mappers make of the streams of a framework, by the names of the streams."""
    program = _HERE / "streams" / f"{framework.replace('-', '_')}_streams.py"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(_SOURCES)}
    python = python_of(f"{framework}-{version}")
    ended = subprocess.run([python, program], capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    read: dict[str, Any] = json.loads(ended.stdout)
    return read
