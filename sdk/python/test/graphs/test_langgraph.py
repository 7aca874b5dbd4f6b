"""LangGraph's persistence, with the Python of each set that has LangGraph: the newest version, and with FULL=1 the oldest as well."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from harness.server import BINARY

_PACKAGE = Path(__file__).resolve().parents[2]
_ROOT = _PACKAGE.parents[1]
VERSIONS = ("oldest", "newest") if "FULL" in os.environ else ("newest",)


@pytest.mark.parametrize("version", VERSIONS)
def test_with_langgraph(version: str) -> None:
    wanted = _PACKAGE / "test/pipe/sets" / f"langgraph-{version}" / "requirements.txt"
    venv = _ROOT / "target" / f"pipe-langgraph-{version}"
    made = subprocess.run([_ROOT / "scripts/venv.sh", wanted, venv], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    checks = sorted(str(path) for path in Path(__file__).parent.glob("checks_*.py"))
    done = subprocess.run(
        [made.stdout.strip(), "-W", "error", "-m", "pytest", *checks],
        cwd=_PACKAGE,
        env={"PATH": os.environ["PATH"], "THREADLINE": BINARY},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
