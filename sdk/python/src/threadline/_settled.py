"""Writes of adapters, which are completed before a cancellation is raised."""

from __future__ import annotations

import asyncio
from typing import Awaitable, Optional, TypeVar

T = TypeVar("T")


async def settled(write: Awaitable[T]) -> T:
    """Completes a write, even if the caller is cancelled: the cancellation is raised after the end of the write.

    A cancelled framework repairs what it has written so far. A write in the background could take effect after that repair.
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
        # The event loop would report an exception that was never retrieved.
        task.exception()
    raise cancelled
