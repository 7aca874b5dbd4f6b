"""Test suites of the frameworks themselves, with FULL=1. `-s` prints how many of their tests pass."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .suites import SUITES, program, run


@pytest.mark.skipif("FULL" not in os.environ, reason="takes minutes, and downloads source archives: FULL=1")
@pytest.mark.parametrize("name", SUITES)
def test_suite(name: str) -> None:
    suite = SUITES[name]
    found = run(suite)
    print(f"{name}: {found.passed} tests pass, {len(found.failed)} fail")
    unexpected = found.failed - {*suite.failing, *suite.unsteady}
    assert not unexpected, found.text[-20_000:]
    passing = set(suite.failing) - found.failed
    assert not passing, f"these pass now: {', '.join(sorted(passing))}"
    assert found.passed > 25


@pytest.mark.skipif("FULL" not in os.environ, reason="needs the packages of a suite: FULL=1")
def test_checkpoints_are_copied_from_sqlite(tmp_path: Path) -> None:
    found = program("copying.py", "langgraph", str(tmp_path / "checkpoints.db"))
    assert found == {"count": 5, "states": 5, "equal": True, "said": "You said no", "messages": 3}
