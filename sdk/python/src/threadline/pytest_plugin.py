"""Fixtures for pytest: a server for the test session, and for each test a client of a new user.

The program is `threadline`, which the wheel installs, or the one that THREADLINE names.
"""

from __future__ import annotations

import os
import secrets
from typing import Callable, Iterator

import pytest

from ._ids import new_id
from ._process import ServerProcess
from ._sync.client import Threadline


@pytest.fixture(scope="session")
def threadline_server() -> Iterator[ServerProcess]:
    """A server for all tests of the session, with its `url` and its `api_key`, on a free port and with an empty directory."""
    server = ServerProcess(os.environ.get("THREADLINE") or "threadline", api_key=secrets.token_urlsafe(24))
    yield server
    server.end()


@pytest.fixture
def threadline_user() -> str:
    """The id of a user that no other test has."""
    return f"user-{new_id()}"


@pytest.fixture
def threadline(threadline_server: ServerProcess, threadline_user: str) -> Iterator[Threadline]:
    """A client of the server for `threadline_user`, who has no threads yet."""
    with Threadline(threadline_server.url, api_key=threadline_server.api_key, user=threadline_user) as client:
        yield client


@pytest.fixture
def threadline_restart(threadline_server: ServerProcess) -> Callable[[], None]:
    """Kills the server with SIGKILL, and starts it again, on the same port and with the same data."""
    return threadline_server.restart
