"""Passes streams of a package through the mappers, and writes the results as JSON. Run with the Python that has the package."""

import asyncio
import json
import sys
from collections.abc import AsyncIterable, Callable, Mapping
from typing import Any

from threadline.pipe import StreamFailed, mapper_for


def mapped(items: list[object]) -> dict[str, Any]:
    """The events of a stream, and the questions that it asks."""
    mapper = mapper_for(items[0])
    assert mapper is not None, f"no mapper for {items[0]!r}"
    events: list[dict[str, Any]] = []
    try:
        for item in items:
            events += mapper.feed(item)
    except StreamFailed as failure:
        return {"mapper": type(mapper).__name__, "events": events, "failure": str(failure)}
    events += mapper.end()
    return {"mapper": type(mapper).__name__, "events": events, "interrupts": mapper.interrupts}


async def _collected(stream: AsyncIterable[object]) -> dict[str, Any]:
    items = [item async for item in stream]
    # The same items may be mapped again: what a cut stream has left open is ended.
    cuts = [mapped(items[:upto])["events"] for upto in range(1, len(items))]
    return {**mapped(items), "cuts": cuts}


def write(streams: Mapping[str, Callable[[], AsyncIterable[object]]]) -> None:
    """Writes the results of streams, by their names."""

    async def all_of_them() -> dict[str, Any]:
        return {name: await _collected(stream()) for name, stream in streams.items()}

    json.dump(asyncio.run(all_of_them()), sys.stdout, allow_nan=False)
