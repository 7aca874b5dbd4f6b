"""Waiting for conditions."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import Any, Callable


async def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Waits until a condition, which may be asynchronous, holds; returns its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {seconds} s: {inspect.getsource(condition).strip()}")
        await asyncio.sleep(0.01)


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """The same, synchronous."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {seconds} s: {inspect.getsource(condition).strip()}")
        time.sleep(0.01)
    return value
