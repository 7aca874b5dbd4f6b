"""Threads: what a client reads and changes."""

from __future__ import annotations

import json

import pytest
from harness.server import Server
from threadline import AsyncThreadline, Cursor, StartedRun, Threadline, user
from threadline._records import QueuedRun
from threadline.problems import CursorAhead, LogReplaced, ThreadExists, ThreadNotFound


async def test_the_life_of_a_thread(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        created = await client.threads.create("life", name="Trips", metadata={"plan": "pro"})
        thread = client.thread("life")
        assert (created.thread_id, created.name, created.metadata, created.tail) == ("life", "Trips", {"plan": "pro"}, 0)
        assert await client.threads.create("life", name="Trips", metadata={"plan": "pro"}) == created
        with pytest.raises(ThreadExists):
            await client.threads.create("life", name="Another")
        assert (await client.threads.get_or_create("life", name="Another")).name == "Trips"
        assert (await client.threads.get_or_create("born")).thread_id == "born"
        assert (await thread.rename("Journeys")).name == "Journeys"
        assert (await thread.update(metadata={"plan": None, "seats": 2})).metadata == {"seats": 2}
        assert (await thread.update(name=None)).name is None
        assert (await thread.archive()).archived and not (await thread.unarchive()).archived
        with pytest.raises(CursorAhead):
            await thread.mark_read(9)
        with pytest.raises(LogReplaced):
            await thread.rename("Wrong", epoch="0" * 16)
        await thread.delete(epoch="0" * 16)
        assert (await thread.get()).epoch == created.epoch
        await thread.delete(epoch=created.epoch)
        with pytest.raises(ThreadNotFound):
            await thread.get()


async def test_lists(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        for n in range(3):
            await client.threads.create(f"listed-{n}", name=f"Café {n}", agent_id="lister")
        page = await client.threads.list(agent_id="lister", limit=2, order="created")
        rest = await client.threads.list(agent_id="lister", cursor=page.next_cursor, order="created")
        assert [one.thread_id for one in page.threads + rest.threads] == ["listed-0", "listed-1", "listed-2"]
        assert rest.next_cursor is None
        assert len((await client.threads.list(search="cafe", agent_id="lister")).threads) == 3
        assert "demo" in [agent.agent_id for agent in await client.agents.list()]
        assert (await client.interrupts.list(agent_id="lister")).interrupts == []


async def test_a_run_of_an_agent(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = client.thread((await client.threads.create()).thread_id)
        started = await thread.start("demo", messages=[user("Hello", id="m1")], run_id="r1")
        assert isinstance(started, StartedRun) and started.run.run_id == "r1"
        queued = await thread.start("demo", messages=[user("And then?")], run_id="r2", busy="enqueue")
        assert isinstance(queued, QueuedRun) and queued.queued.run_id == "r2"
        assert [turn.run_id for turn in (await thread.queue()).items] == ["r2"]
        await thread.stop("r1")
        async with thread.subscribe(run_id="r1") as items:
            async for _ in items:
                pass
        assert (await thread.run_record("r1")).status == "stopped"
        assert [run.run_id for run in (await thread.runs()).runs][-1] == "r1"


async def test_messages_state_and_the_log(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = client.thread((await client.threads.create()).thread_id)
        big = 2**60 + 1
        events = [
            {"type": "STATE_SNAPSHOT", "snapshot": {"n": big}},
            {"type": "TEXT_MESSAGE_CHUNK", "delta": "a\ud800b"},
            {"type": "TEXT_MESSAGE_CHUNK", "delta": "\u2028\x85c"},
        ]
        started = await thread.put_run("r1", events)
        assert (started.run.status, started.run.last_seq) == ("finished", 4)
        assert (await thread.put_run("r1", events)).run == started.run
        [message] = (await thread.messages()).messages
        assert message["id"] == "r1-2" and message["content"].endswith("\u2028\x85c")
        assert (await thread.state(at=1, epoch=started.epoch)).state == {"n": big}
        page = await thread.events(limit=2)
        assert [one.seq for one in page.events] == [1, 2] and page.has_more
        rest = await thread.events(cursor=page.next_cursor)
        assert [one.seq for one in rest.events] == [3, 4] and page.events[0].event["snapshot"]["n"] == big
        lines = [line async for line in thread.lines(cursor=Cursor(1, started.epoch))]
        assert [json.loads(line)["seq"] for line in lines] == [2, 3, 4]
        assert b'"a\\ud800b"' in lines[0]
        fork = await thread.fork(at=2, epoch=started.epoch)
        assert fork.forked_from is not None and fork.forked_from.seq == 2
        assert [one.thread_id for one in await thread.branches()] == [thread.thread_id, fork.thread_id]
        assert (await thread.mark_read(4)).read_seq == 4


def test_the_synchronous_client_does_the_same(server: Server) -> None:
    with Threadline(server.url) as client:
        created = client.threads.create(name="Sync")
        thread = client.thread(created.thread_id)
        assert thread.rename("Synchronous").name == "Synchronous"
        thread.put_run("r1", [{"type": "TEXT_MESSAGE_CHUNK", "delta": "Hello"}])
        assert [message["content"] for message in thread.messages().messages] == ["Hello"]
        assert len(list(thread.lines())) == 2
        assert [type(item).__name__ for item in thread.subscribe(run_id="r1")] == ["Hello", "Events", "Ended"]
        assert client.threads.list(search="synchronous").threads[0].thread_id == created.thread_id
        thread.delete()
        with pytest.raises(ThreadNotFound):
            thread.get()
