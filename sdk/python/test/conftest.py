"""One server for all tests, and the check that a test leaves no task, thread or socket behind."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from typing import Any, Iterator

import pytest
from harness.proxy import Proxy
from harness.server import Server
from harness.until import until, wait_until

# Seconds after which an asynchronous test that hangs ends as a failure.
LIMIT = 90


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that a test may kill."""
    server = Server()
    yield server
    server.end()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    yield proxy
    proxy.end()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Any:
    """Runs asynchronous tests, and looks for tasks that they leave behind."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    async def whole() -> None:
        await asyncio.wait_for(pyfuncitem.obj(**arguments), LIMIT)
        # Generators of httpx that are not read to their end are closed by tasks of the event loop.
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    asyncio.run(whole(), debug=False)
    return True


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Threads of the package end with what they serve. Sockets that nobody has closed warn when they are collected."""
    yield
    wait_until(lambda: not [one for one in threading.enumerate() if one.name.startswith("threadline")])
    gc.collect()
