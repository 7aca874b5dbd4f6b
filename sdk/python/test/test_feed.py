"""The feed of a user's threads: nothing is missed, over restarts of the server and losses of the network."""

from __future__ import annotations

import asyncio
from typing import List, Optional

import pytest
from harness.proxy import Proxy
from harness.server import Server
from harness.until import until as reached
from threadline import AsyncFeed, AsyncThreadline, Cursor, FeedEntry, Threadline
from threadline.problems import LogReplaced


async def until(feed: AsyncFeed, thread_id: str, name: Optional[str]) -> List[FeedEntry]:
    """The entries up to the one by which a thread has this name; None: by which it is deleted."""
    seen: List[FeedEntry] = []
    async for entry in feed:
        seen.append(entry)
        if entry.thread_id == thread_id and (entry.thread.name if entry.thread else None) == name:
            return seen
    raise AssertionError("the feed has ended")


async def test_a_feed_has_every_change(server: Server) -> None:
    async with AsyncThreadline(server.url, user="ann") as client:
        page = await client.threads.list()
        feed = client.feed(Cursor(page.feed_cursor, page.feed_epoch))
        made = [await client.threads.create(name=f"Thread {n}") for n in range(60)]
        last = made[-1].thread_id
        entries = await until(feed, last, "Thread 59")
        assert [entry.thread_id for entry in entries] == [thread.thread_id for thread in made]
        # Live: the request waits at the server.
        waiting = asyncio.ensure_future(until(feed, last, "Renamed"))
        await asyncio.sleep(0)
        await client.thread(last).rename("Renamed")
        assert len(await asyncio.wait_for(waiting, 20)) == 1
        stored = feed.cursor
        await client.thread(made[0].thread_id).delete()
        (gone,) = await until(client.feed(stored), made[0].thread_id, None)
        assert gone.type == "delete" and gone.thread is None
        # All threads come first without a cursor; another user has none of them.
        everything = await until(client.feed(), made[0].thread_id, None)
        assert {entry.thread_id for entry in everything} >= {thread.thread_id for thread in made}
    async with AsyncThreadline(server.url, user="eve") as other:
        own = await other.threads.create(name="Own")
        assert [entry.thread_id for entry in await until(other.feed(), own.thread_id, "Own")] == [own.thread_id]
        with pytest.raises(LogReplaced):
            async for _ in other.feed(stored):
                raise AssertionError("an entry of another feed")


async def test_a_feed_waits_out_a_server_that_is_away(own_server: Server) -> None:
    proxy = Proxy(own_server.port)
    try:
        async with AsyncThreadline(proxy.url, user="fay") as client:
            thread = await client.threads.create(name="0")
            feed = client.feed()
            await until(feed, thread.thread_id, "0")
            for n, cut in enumerate([proxy.cut, own_server.restart], 1):
                asked = len(proxy.requests)
                waiting = asyncio.ensure_future(until(feed, thread.thread_id, str(n)))
                await reached(lambda: any("wait=25" in request for request in proxy.requests[asked:]))
                cut()
                await client.thread(thread.thread_id).rename(str(n))
                await asyncio.wait_for(waiting, 30)
    finally:
        proxy.end()


def test_a_synchronous_feed(server: Server) -> None:
    with Threadline(server.url, user="gil") as client:
        made = client.threads.create(name="One")
        entry = next(iter(client.feed()))
        assert entry.thread_id == made.thread_id and entry.thread is not None and entry.thread.name == "One"
