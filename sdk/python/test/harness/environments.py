"""Environments with packages of frameworks, in the versions of `sets`: the newest, and with FULL=1 the oldest as well."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache
from pathlib import Path

_TEST = Path(__file__).resolve().parents[1]
_ROOT = _TEST.parents[2]
_SETS = (_TEST / "adapters/sets", _TEST / "pipe/sets")
VERSIONS = ("oldest", "newest") if "FULL" in os.environ else ("newest",)


@lru_cache
def python_of(environment: str) -> str:
    """The Python of a set, whose packages are installed if they are not there."""
    wanted = next(folder / environment / "requirements.txt" for folder in _SETS if (folder / environment).is_dir())
    return python_in(wanted, _ROOT / "target" / f"pipe-{environment}")


def python_in(wanted: Path, venv: Path) -> str:
    """The Python of an environment, whose packages are installed if they are not there."""
    made = subprocess.run([_ROOT / "scripts/venv.sh", wanted, venv], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()
