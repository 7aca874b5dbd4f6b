"""Sessions of the OpenAI Agents SDK."""

from __future__ import annotations

import pytest
from harness.server import Server

from .environments import assert_check, cases


@pytest.mark.parametrize(("version", "check"), cases("openai_agents_checks"))
def test_sessions(keyed: Server, version: str, check: str) -> None:
    assert_check(keyed, f"openai-{version}", "openai_agents_checks", check)
