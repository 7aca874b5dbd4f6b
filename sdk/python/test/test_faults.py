"""A producer and readers while the server is killed twice, and the network cuts and swallows answers."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any, Dict, List

import pytest
from harness.proxy import Proxy
from harness.server import Server
from harness.writing import STRANGE, Received
from threadline import AsyncThread, AsyncThreadline, Ended, Retries
from threadline._async.runs import AsyncRuns
from threadline._records import Appended

EVENTS = 100


async def produce(thread: AsyncThread, killed: asyncio.Event, done: asyncio.Event) -> Any:
    """Produces until the server has been killed as often as it is to be, and then some more."""
    async with thread.run(run_id="run", lease_seconds=60) as run:
        n = after = 0
        while after < EVENTS:
            await run.append({"type": "CUSTOM", "name": "n", "value": [n, STRANGE if n % 7 == 0 else ""]})
            n += 1
            after += killed.is_set()
            await asyncio.sleep(0.01)
        await run.flush()
        done.set()
    return run.record


async def read(thread: AsyncThread, received: Received) -> None:
    async with thread.subscribe(run_id="run") as items:
        async for item in items:
            received.take(item)
    assert isinstance(item, Ended)


async def disturb(proxy: Proxy, server: Server, killed: asyncio.Event, done: asyncio.Event, chances: random.Random, kills: int) -> None:
    """Cuts every 50 ms to 1 s, swallows answers, and kills the server twice."""
    rounds = 0
    while not done.is_set():
        await asyncio.sleep(chances.uniform(0.05, 1.0))
        proxy.swallow_answers = chances.randrange(2)
        proxy.cut()
        rounds += 1
        if kills and rounds % 3 == 0:
            kills -= 1
            await asyncio.to_thread(server.restart)
        if not kills:
            killed.set()


async def whole(server: Server, proxy: Proxy, kills: int) -> List[Dict[str, Any]]:
    """Produces and reads through faults; returns the log of the run."""
    seed = random.randrange(2**31)
    print(f"seed {seed}")
    retries = Retries(reads=30, producers=60)
    killed, done = asyncio.Event(), asyncio.Event()
    async with AsyncThreadline(server.url, retries=retries) as setup:
        thread_id = (await setup.threads.create()).thread_id
    async with AsyncThreadline(proxy.url, retries=retries) as writer:
        producing = asyncio.ensure_future(produce(writer.thread(thread_id), killed, done))
        while not await asyncio.to_thread(server.log, thread_id):
            await asyncio.sleep(0.01)
        clients = [
            AsyncThreadline(proxy.url, retries=retries, transports=transports)
            for transports in (["sse", "long-poll"], ["sse"], ["long-poll"])
        ]
        received = [Received() for _ in clients]
        reading = [asyncio.ensure_future(read(client.thread(thread_id), one)) for client, one in zip(clients, received, strict=True)]
        await asyncio.gather(disturb(proxy, server, killed, done, random.Random(seed), kills), producing)
        proxy.swallow_answers = 0
        await asyncio.wait_for(asyncio.gather(*reading), 30)
        for client in clients:
            await client.aclose()
    logged = await asyncio.to_thread(server.log, thread_id)
    async with AsyncThreadline(server.url) as client:
        lines = [json.loads(line) async for line in client.thread(thread_id).lines()]
    assert lines == logged
    for one in received:
        assert one.events == [event["event"] for event in logged], f"seed {seed}"
    return logged


async def test_each_event_once_for_every_reader(own_server: Server) -> None:
    proxy = Proxy(own_server.port)
    try:
        logged = await whole(own_server, proxy, kills=2)
    finally:
        await asyncio.to_thread(proxy.end)
    values = [one["event"]["value"][0] for one in logged[1:-1]]
    assert len(values) > EVENTS and values == list(range(len(values)))


async def test_without_numbers_events_would_be_repeated(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test before can fail: it depends on `producerSeq`."""

    async def append(self: AsyncRuns, run_id: str, attempt: int, producer_seq: int, events: List[str]) -> Appended:
        answer = await self._post(run_id, "events", {"attempt": attempt}, f"[{','.join(events)}]")
        return Appended.of(answer)

    monkeypatch.setattr(AsyncRuns, "append", append)
    async with AsyncThreadline(own_server.url) as setup:
        thread_id = (await setup.threads.create()).thread_id
    proxy = Proxy(own_server.port)
    try:
        async with AsyncThreadline(proxy.url) as client:
            async with client.thread(thread_id).run() as run:
                for n in range(5):
                    proxy.swallow_answers = 1
                    await run.append({"type": "CUSTOM", "name": "n", "value": n})
                    await run.flush()
    finally:
        await asyncio.to_thread(proxy.end)
    values = [one["event"].get("value") for one in own_server.log(thread_id)]
    assert len(values) > 7 and values != [None, *range(5), None]
