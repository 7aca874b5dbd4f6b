"""Runs the checks of a program, one after the other, and prints their failures as JSON."""

import ast
import asyncio
import gc
import inspect
import json
import os
import sys
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from harness.until import until
from threadline import AsyncThreadline

# Seconds after which a check that hangs has failed.
LIMIT = 30

Check = Callable[[], Awaitable[None]]


def main(names: dict[str, Any]) -> None:
    """Runs all `check_…` functions of a module. What they leave behind, and warnings, are failures."""
    found = {}
    warnings.simplefilter("error")
    # ADK warns of features of its own that it uses.
    warnings.filterwarnings("ignore", message=r"\[EXPERIMENTAL\]")
    for name, check in names.items():
        if name.startswith("check_"):
            found[name] = asyncio.run(_failure(check))
    print(json.dumps(found))


async def _failure(check: Check) -> str | None:
    left: list[str] = []
    sys.unraisablehook = lambda what: left.append(f"{what.exc_type.__name__}: {what.exc_value}")
    try:
        await asyncio.wait_for(check(), LIMIT)
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, 5)
        gc.collect()
    except BaseException:
        return traceback.format_exc()
    return "\n".join(left) or None


async def run_example(page: str, snippet: str, names: dict[str, Any]) -> None:
    """Runs an example of a page, which may await. Its server is the one of the tests."""
    text = snippet.replace("http://localhost:7420", os.environ["THREADLINE_URL"])
    result = eval(compile(text, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.isawaitable(result):
        await result


class Held(httpx.AsyncHTTPTransport):
    """A network that holds answers back until `release` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.holding = False
        self.held = asyncio.Event()
        self.release = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if self.holding:
            self.held.set()
            await self.release.wait()
        return response


@asynccontextmanager
async def held_client() -> AsyncIterator[tuple[AsyncThreadline, Held]]:
    network = Held()
    async with httpx.AsyncClient(transport=network) as http, AsyncThreadline(http=http) as client:
        yield client, network


async def cancelled_write(network: Held, write: Awaitable[Any]) -> None:
    """A write whose caller is cancelled ends before the cancellation is raised."""
    network.holding = True
    task = asyncio.ensure_future(write)
    await network.held.wait()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.05)
    assert not done, "the write was left"
    network.release.set()
    await asyncio.wait([task])
    assert task.cancelled()
    network.holding = False
