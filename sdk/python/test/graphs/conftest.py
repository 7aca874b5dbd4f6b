"""Clients of both kinds, each test with a user of its own."""

from __future__ import annotations

import itertools
import os
from typing import Callable, Iterator

import pytest
from harness.server import Server
from threadline import AsyncThreadline, Threadline

KEY = "a-key-of-the-tests-0123456789abcdef"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server with a key: agent data is for keys."""
    server = Server(KEY)
    yield server
    server.end()


@pytest.fixture
def user() -> str:
    return f"user-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def client(server: Server, user: str) -> Iterator[Threadline]:
    with Threadline(server.url, api_key=KEY, user=user) as client:
        yield client


@pytest.fixture
def connect(server: Server, user: str) -> Callable[[], AsyncThreadline]:
    """Makes an asynchronous client, which belongs to the event loop of its test."""
    return lambda: AsyncThreadline(server.url, api_key=KEY, user=user)


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that a test may kill, in development mode."""
    server = Server()
    yield server
    server.end()
