"""LangGraph's persistence, with the Python of each set that has LangGraph: the newest version, and with FULL=1 the oldest as well."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from harness.environments import VERSIONS, python_of
from harness.server import BINARY

_PACKAGE = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("version", VERSIONS)
def test_with_langgraph(version: str) -> None:
    checks = sorted(str(path) for path in Path(__file__).parent.glob("checks_*.py"))
    done = subprocess.run(
        [python_of(f"langgraph-{version}"), "-W", "error", "-m", "pytest", *checks],
        cwd=_PACKAGE,
        env={"PATH": os.environ["PATH"], "THREADLINE": BINARY},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
