"""The types of adapters whose bases are classes of their frameworks, checked with the packages of these: with FULL=1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness.environments import python_of

PACKAGE = Path(__file__).resolve().parents[2]


@pytest.mark.skipif("FULL" not in os.environ, reason="takes a minute: FULL=1")
@pytest.mark.parametrize(
    ("environment", "module"),
    [("pydantic-ai-newest", "pydantic_ai.py"), ("openai-newest", "openai_agents.py"), ("adk-newest", "adk.py")],
)
def test_types(environment: str, module: str) -> None:
    cache = PACKAGE.parents[1] / "target/mypy" / environment
    command = [sys.executable, "-m", "mypy", "--python-executable", python_of(environment), "--cache-dir", str(cache)]
    done = subprocess.run([*command, str(PACKAGE / "src/threadline" / module)], cwd=PACKAGE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
