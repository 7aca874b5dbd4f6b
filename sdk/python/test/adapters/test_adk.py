"""Sessions of ADK."""

from __future__ import annotations

import pytest
from harness.server import Server

from .environments import assert_check, cases


@pytest.mark.parametrize(("version", "check"), cases("adk_checks"))
def test_sessions(keyed: Server, version: str, check: str) -> None:
    assert_check(keyed, f"adk-{version}", "adk_checks", check)
