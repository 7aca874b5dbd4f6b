"""Conversations of pydantic-ai."""

from __future__ import annotations

import pytest
from harness.server import Server

from .environments import assert_check, cases

#: The oldest version with a store is not the oldest whose streams are mapped.
SETS = {"oldest": "conversations-oldest", "newest": "pydantic-ai-newest"}


@pytest.mark.parametrize(("version", "check"), cases("conversations_checks"))
def test_conversations(keyed: Server, version: str, check: str) -> None:
    assert_check(keyed, SETS[version], "conversations_checks", check)
