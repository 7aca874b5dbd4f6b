"""Writes of frameworks, whose end their caller has to know."""

from __future__ import annotations

import asyncio
from typing import Awaitable, Optional, TypeVar

T = TypeVar("T")


async def settled(write: Awaitable[T]) -> T:
    """Waits for a write, also if the caller is cancelled meanwhile: the cancellation is raised after its end.

    A framework that is cancelled goes on to repair what it has half written. A write that went on in the background could take
    effect after that.
    """
    task = asyncio.ensure_future(write)
    cancelled: Optional[asyncio.CancelledError] = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        # An exception that nobody has read would be reported by the event loop.
        task.exception()
    raise cancelled
