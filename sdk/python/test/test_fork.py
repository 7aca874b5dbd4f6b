"""A client on both sides of a fork: each process has connections of its own."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any, List

import httpx
import pytest
from harness.server import Server
from threadline import ConfigError, Threadline

ROUNDS = 100

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    # From 3.12 on, Python warns of forks beside threads: here, the one that reads the output of the server.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def answers(client: Threadline, name: str) -> List[Any]:
    """The items of a list, read again and again."""
    thread = client.thread(f"of-{name}")
    return sorted({item for _ in range(ROUNDS) for item in (one.item for one in thread.items("l").page().items)})


def child(client: Threadline, name: str, out: Any) -> None:
    try:
        out.put(answers(client, name))
    except BaseException as error:
        out.put(repr(error))


def test_two_processes_get_their_own_answers(server: Server) -> None:
    with Threadline(server.url) as client:
        for name in ("ann", "bob"):
            client.threads.create(f"of-{name}")
            client.thread(f"of-{name}").items("l").append([name])
        context = multiprocessing.get_context("fork")
        out = context.Queue()
        process = context.Process(target=child, args=(client, "bob", out))
        process.start()
        assert answers(client, "ann") == ["ann"]
        assert out.get(timeout=60) == ["bob"]
        process.join()
        out.close()
        out.join_thread()


def test_a_client_of_http_is_not_shared(server: Server) -> None:
    with httpx.Client() as http, Threadline(server.url, http=http) as client:
        client.threads.list()
        context = multiprocessing.get_context("fork")
        out = context.Queue()
        process = context.Process(target=child, args=(client, "ann", out))
        process.start()
        assert ConfigError.__name__ in out.get(timeout=60)
        process.join()
        client.threads.list()
        out.close()
        out.join_thread()
