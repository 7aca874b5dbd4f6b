"""The reader: no gap and no duplicate, over every transport and through every fault."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Dict, List

import pytest
from harness.proxy import Proxy
from harness.server import Server
from harness.until import until, wait_until
from harness.writing import STRANGE, Received, run_of
from threadline import (
    AsyncThread,
    AsyncThreadline,
    CaughtUp,
    Closed,
    ConfigError,
    ConnectionFailed,
    Cursor,
    Ended,
    Events,
    Hello,
    Item,
    ProtocolError,
    Queue,
    Rebased,
    Reconnecting,
    Threadline,
    common_cursor,
    user,
)
from threadline._async import http as http_module
from threadline._async import transports as transports_module
from threadline._async import turns as turns_module
from threadline.problems import CursorAhead, LogReplaced, RunNotFound, ThreadNotFound, Unauthorized

TRANSPORTS = ["sse", "long-poll"]
FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 9\r\nconnection: close\r\n\r\nforbidden"


async def new(client: AsyncThreadline) -> AsyncThread:
    return client.thread((await client.threads.create()).thread_id)


async def read(thread: AsyncThread, received: Received, upto: int, **options: Any) -> List[Item]:
    """Reads a thread from its cursor to an event."""
    items: List[Item] = []
    async with thread.subscribe(**options) as following:
        async for item in following:
            items.append(item)
            received.take(item)
            assert following.cursor.after == received.at
            if received.at >= upto:
                break
    return items


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_stored_and_live_events_whatever_they_contain(server: Server, proxy: Proxy, transport: str) -> None:
    proxy.piece = 1_000
    async with AsyncThreadline(proxy.url, transports=[transport]) as client:
        thread = await new(client)
        await thread.put_run(*run_of("stored", [STRANGE, "x" * 200_000, STRANGE]))
        received = Received()
        reading = asyncio.ensure_future(read(thread, received, 11))
        await until(lambda: "CaughtUp" in received.kinds)
        await thread.put_run(*run_of("live", [STRANGE, STRANGE]))
        await reading
        logged = server.log(thread.thread_id)
        assert received.events == [one["event"] for one in logged]
        assert received.kinds[0] == "Hello" and received.kinds.count("CaughtUp") == 1
        deltas = [event["delta"] for event in received.events if event["type"] == "TEXT_MESSAGE_CONTENT"]
        assert deltas[:5] == [STRANGE, "x" * 200_000, STRANGE, STRANGE, STRANGE]


@pytest.mark.parametrize("size", [1, 3])
async def test_chunks_that_end_inside_of_characters(server: Server, proxy: Proxy, size: int) -> None:
    proxy.piece = size
    async with AsyncThreadline(proxy.url) as client:
        thread = await new(client)
        await thread.put_run(*run_of("r", [STRANGE]))
        received = Received()
        await read(thread, received, 4)
        assert received.events[1]["delta"] == STRANGE


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_cuts_lose_and_repeat_nothing(server: Server, proxy: Proxy, transport: str) -> None:
    async with AsyncThreadline(server.url) as writer, AsyncThreadline(proxy.url, transports=[transport]) as client:
        thread = await new(writer)
        received = Received()
        reading = asyncio.ensure_future(read(client.thread(thread.thread_id), received, 48))
        for n in range(12):
            await thread.put_run(*run_of(f"r{n}", [STRANGE]))
            if n % 3 == 0:
                await asyncio.sleep(0.05)
                proxy.cut()
        await asyncio.wait_for(reading, 30)
        assert received.events == [one["event"] for one in server.log(thread.thread_id)][: received.at]
        assert "Reconnecting" in received.kinds


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_one_run_and_its_end(server: Server, transport: str) -> None:
    async with AsyncThreadline(server.url, transports=[transport]) as client:
        thread = await new(client)
        for name in ("first", "second", "third"):
            await thread.put_run(*run_of(name, [name]))
        items = [item async for item in thread.subscribe(run_id="second")]
        assert isinstance(items[-1], Ended) and items[-1].reason == "run-ended"
        batches = [batch for item in items if isinstance(item, Events) for batch in item.batches]
        assert {batch.run_id for batch in batches} == {"second"} and batches[0].seq == 5
        with pytest.raises(RunNotFound):
            [item async for item in thread.subscribe(run_id="fourth")]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_thread_that_is_deleted_and_created_again(server: Server, transport: str) -> None:
    async with AsyncThreadline(server.url, transports=[transport]) as client:
        thread = await new(client)
        await thread.put_run(*run_of("r", ["a"]))
        received = Received()
        items: List[Item] = []
        following = thread.subscribe()

        async def consume() -> None:
            async for item in following:
                items.append(item)
                received.take(item)

        reading = asyncio.ensure_future(consume())
        await until(lambda: "CaughtUp" in received.kinds)
        cursor = following.cursor
        await thread.delete()
        await asyncio.wait_for(reading, 20)
        assert items[-1] == Ended("thread-deleted")
        with pytest.raises(ThreadNotFound):
            await thread.subscribe().__anext__()
        await client.threads.create(thread.thread_id)
        with pytest.raises(LogReplaced) as caught:
            await thread.subscribe(cursor).__anext__()
        assert common_cursor(caught.value) is None
        epoch = (await thread.get()).epoch
        with pytest.raises(CursorAhead):
            await thread.subscribe(Cursor(9, epoch)).__anext__()
        with pytest.raises(ConfigError, match="epoch"):
            thread.subscribe(Cursor(9))


async def test_lost_commits(own_server: Server) -> None:
    async with AsyncThreadline(own_server.url) as client:
        thread = await new(client)
        await thread.put_run(*run_of("kept", ["a"]))
        saved = await asyncio.to_thread(own_server.save)
        received, behind = Received(), Received()
        [*_, last] = await read(thread, behind, 4)
        assert isinstance(last, Events)
        before = Cursor(behind.at, (await thread.get()).epoch)
        await thread.put_run(*run_of("lost", ["b"]))
        following = thread.subscribe()
        async for item in following:
            received.take(item)
            if isinstance(item, CaughtUp):
                break
        assert received.at == 8
        await asyncio.to_thread(own_server.lose, saved)
        await thread.put_run(*run_of("new", ["c"]))
        with pytest.raises(LogReplaced) as caught:
            async for item in following:
                received.take(item)
        common = common_cursor(caught.value)
        assert common and common.after == 4
        again = Received(4)
        await read(thread, again, 8, cursor=common)
        assert again.events[1]["delta"] == "c"
        items = await read(thread, behind, 8, cursor=before)
        assert any(isinstance(item, Rebased) and item.previous == before.epoch for item in items)
        assert behind.events == [one["event"] for one in own_server.log(thread.thread_id)]


async def test_a_transport_that_is_refused_gives_way_to_the_next(server: Server, proxy: Proxy) -> None:
    proxy.instead_of_streams = FORBIDDEN
    async with AsyncThreadline(proxy.url) as client:
        thread = await new(client)
        await thread.put_run(*run_of("r", ["a"]))
        received = Received()
        await read(thread, received, 4)
        assert any("wait=" in request for request in proxy.requests)
        # The next subscription knows it.
        count = len([request for request in proxy.requests if "wait=" not in request and "/events" in request])
        await read(thread, Received(), 4)
        assert len([request for request in proxy.requests if "wait=" not in request and "/events" in request]) == count


async def test_a_stream_that_does_not_begin_gives_way_to_the_next_transport(
    server: Server, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (http_module, transports_module):
        monkeypatch.setattr(module, "OPEN_TIMEOUT", 0.5)
    proxy.silent_streams = True
    async with AsyncThreadline(proxy.url) as client:
        thread = await new(client)
        await thread.put_run(*run_of("r", ["a"]))
        await asyncio.wait_for(read(thread, Received(), 4), 10)
        proxy.silent_streams = False
    # The head of the response, and nothing behind it.
    proxy.instead_of_streams = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    async with AsyncThreadline(proxy.url) as client:
        await asyncio.wait_for(read(client.thread(thread.thread_id), Received(), 4), 10)


async def test_a_server_that_is_none_is_final(proxy: Proxy) -> None:
    proxy.instead = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nHello"
    async with AsyncThreadline(proxy.url) as client:
        with pytest.raises(ProtocolError):
            async for _ in client.thread("t").subscribe():
                pass


async def test_what_is_on_the_way_ends_no_subscription(server: Server, proxy: Proxy) -> None:
    async with AsyncThreadline(proxy.url) as client:
        thread = await new(client)
        received = Received()
        reading = asyncio.ensure_future(read(thread, received, 4))
        await until(lambda: "CaughtUp" in received.kinds)
        proxy.instead = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nHello"
        proxy.cut()
        await until(lambda: received.kinds.count("Reconnecting") > 1)
        proxy.instead = None
        await thread.put_run(*run_of("r", ["a"]))
        await asyncio.wait_for(reading, 20)


async def test_more_subscriptions_than_streams_take_turns(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "STREAMS", 3)
    monkeypatch.setattr(turns_module, "TURN", 0.2)
    monkeypatch.setattr(turns_module, "OPEN_TIMEOUT", 0.4)
    async with AsyncThreadline(server.url) as client:
        threads = [await new(client) for _ in range(7)]
        # A consumer that reads nothing more keeps nobody waiting.
        idle = [thread.subscribe() for thread in threads[:3]]
        for following in idle:
            assert isinstance(await following.__anext__(), Hello)
        all_received = [Received() for _ in threads]
        readings = [asyncio.ensure_future(read(thread, received, 8)) for thread, received in zip(threads, all_received, strict=True)]
        for name in ("a", "b"):
            await asyncio.gather(*(thread.put_run(*run_of(name, ["x"])) for thread in threads))
        await asyncio.wait_for(asyncio.gather(*readings), 40)
        for received in all_received:
            assert received.kinds.count("Hello") == 1 and "Reconnecting" not in received.kinds
        # Those whose turn was taken from them go on as well.
        for following in idle:
            late = Received()
            async for item in following:
                late.take(item)
                if late.at >= 8:
                    break
            await following.aclose()


async def test_the_queue_is_told(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        await thread.start("demo", messages=[user("Hello")], run_id="r1")
        async with thread.subscribe() as items:
            await thread.start("demo", messages=[user("And?")], run_id="r2", busy="enqueue")
            async for item in items:
                if isinstance(item, Queue) and item.queued == 1:
                    break
        await thread.stop("r1")


async def test_a_token_that_ends_is_replaced_without_a_gap() -> None:
    keyed = Server(api_key="a-long-key-of-the-operator")
    try:
        given: List[Dict[str, Any]] = []

        def source() -> str:
            given.append(keyed.request("POST", "/v1/tokens", {"userId": "ann", "expiresInSeconds": 60}))
            return str(given[-1]["token"])

        async with AsyncThreadline(keyed.url, api_key=keyed.api_key, user="ann") as writer:
            thread = await new(writer)
            async with AsyncThreadline(keyed.url, token=source) as client:
                received = Received()
                reading = asyncio.ensure_future(read(client.thread(thread.thread_id), received, 8))
                await until(lambda: "CaughtUp" in received.kinds)
                await thread.put_run(*run_of("a", ["x"]))
                # All tokens that were issued before end.
                await asyncio.to_thread(keyed.request, "POST", "/v1/users/ann/sign-out")
                await until(lambda: len(given) > 1)
                await thread.put_run(*run_of("b", ["x"]))
                await asyncio.wait_for(reading, 20)
            fixed = str(given[-1]["token"])
            async with AsyncThreadline(keyed.url, token=fixed) as client:
                await asyncio.to_thread(keyed.request, "POST", "/v1/users/ann/sign-out")
                with pytest.raises(Unauthorized):
                    async for _ in client.thread(thread.thread_id).subscribe():
                        pass
    finally:
        keyed.end()


async def test_a_restart_of_the_server_is_survived(own_server: Server) -> None:
    async with AsyncThreadline(own_server.url) as client:
        thread = await new(client)
        await thread.put_run(*run_of("a", ["x"]))
        received = Received()
        reading = asyncio.ensure_future(read(thread, received, 8))
        await until(lambda: "CaughtUp" in received.kinds)
        await asyncio.to_thread(own_server.restart)
        await thread.put_run(*run_of("b", ["y"]))
        await asyncio.wait_for(reading, 20)
        assert received.kinds.count("Hello") >= 2


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_synchronous_reader_through_cuts(server: Server, proxy: Proxy, transport: str) -> None:
    with Threadline(proxy.url, transports=[transport]) as client, Threadline(server.url) as writer:
        thread = writer.thread(writer.threads.create().thread_id)
        received = Received()

        def consume() -> None:
            with client.thread(thread.thread_id).subscribe() as items:
                for item in items:
                    received.take(item)
                    if received.at >= 16:
                        break

        reading = threading.Thread(target=consume, name="test-reader")
        reading.start()
        for n in range(4):
            thread.put_run(*run_of(f"r{n}", [STRANGE]))
            wait_until(lambda: received.at >= 4 * (n + 1))
            proxy.cut()
        reading.join(20)
        assert not reading.is_alive()
        assert received.events == [one["event"] for one in server.log(thread.thread_id)]


def test_closing_the_client_ends_a_synchronous_reader(server: Server) -> None:
    client = Threadline(server.url)
    thread = client.thread(client.threads.create().thread_id)
    caught: List[BaseException] = []
    kinds: List[str] = []

    def consume() -> None:
        try:
            for item in thread.subscribe():
                kinds.append(type(item).__name__)
        except BaseException as error:
            caught.append(error)

    reading = threading.Thread(target=consume, name="test-reader")
    reading.start()
    wait_until(lambda: "CaughtUp" in kinds)
    client.close()
    reading.join(10)
    assert not reading.is_alive() and [type(error) for error in caught] == [Closed]


async def test_the_reason_of_a_loss_is_told(server: Server, proxy: Proxy) -> None:
    proxy.refuse = True
    async with AsyncThreadline(proxy.url) as client:
        async with client.thread("t").subscribe() as items:
            item = await items.__anext__()
            assert isinstance(item, Reconnecting) and isinstance(item.error, ConnectionFailed) and 0 <= item.wait <= 0.25


async def test_a_consumer_that_does_not_read_loses_nothing(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        received = Received()
        async with thread.subscribe() as items:
            async for item in items:
                received.take(item)
                if isinstance(item, CaughtUp):
                    break
            # More than sockets hold, and than the server keeps for one reader.
            for n in range(4):
                await thread.put_run(*run_of(f"r{n}", ["x" * 1_000_000] * 6))
            async for item in items:
                received.take(item)
                if received.at >= 36:
                    break
        assert received.events == [one["event"] for one in server.log(thread.thread_id)]
