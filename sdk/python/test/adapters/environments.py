"""Checks that run with packages of frameworks, in the versions of `sets`: the newest, and with FULL=1 the oldest as well."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from harness.environments import VERSIONS, python_of
from harness.server import Server

HERE = Path(__file__).resolve().parent
_ROOT = HERE.parents[3]


def checks_of(program: str) -> List[str]:
    """The names of the checks of a program, read from its text, since only its environment can import it."""
    tree = ast.parse((HERE / "programs" / f"{program}.py").read_text())
    return [one.name for one in tree.body if isinstance(one, ast.AsyncFunctionDef) and one.name.startswith("check_")]


def cases(program: str) -> List[Tuple[str, str]]:
    return [(version, check) for version in VERSIONS for check in checks_of(program)]


@lru_cache
def results(environment: str, program: str, url: str, api_key: str) -> Dict[str, Optional[str]]:
    """The failures of the checks of a program, by their names; None for a check that has passed."""
    paths = os.pathsep.join(str(_ROOT / "sdk/python" / folder) for folder in ("src", "test"))
    names = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "THREADLINE_URL": url, "THREADLINE_API_KEY": api_key}
    command = [python_of(environment), str(HERE / "programs" / f"{program}.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=names, timeout=120)
    assert ended.returncode == 0, ended.stderr
    read: Dict[str, Optional[str]] = json.loads(ended.stdout.splitlines()[-1])
    return read


def assert_check(server: Server, environment: str, program: str, check: str) -> None:
    assert server.api_key is not None
    failure = results(environment, program, server.url, server.api_key)[check]
    assert failure is None, failure
