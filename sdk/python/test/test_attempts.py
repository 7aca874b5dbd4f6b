"""A run whose process died, and which another process takes up under its id."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any, Dict, List

import pytest
from harness.server import Server
from harness.until import until
from threadline import AsyncRun, AsyncThreadline, Closed, Threadline, ThreadlineError, user
from threadline.problems import RecoveryUnsafe, RunFenced

WORDS = [f"{n} " for n in range(9)]
OPENING: Dict[str, Any] = {
    "run_id": "run",
    "messages": [user("Count!", id="q")],
    "state": {"counted": 0},
    "lease_seconds": 60,
}


def answer(tag: str) -> List[Dict[str, Any]]:
    """With the opening, an answer of 30 events: reasoning, two texts, steps and state."""

    def text(message_id: str, deltas: List[str]) -> List[Dict[str, Any]]:
        return [
            {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"},
            *({"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta} for delta in deltas),
            {"type": "TEXT_MESSAGE_END", "messageId": message_id},
        ]

    thought = {"messageId": f"thought-{tag}"}
    return [
        {"type": "STEP_STARTED", "stepName": "think"},
        {"type": "REASONING_START", **thought},
        {"type": "REASONING_MESSAGE_START", "role": "reasoning", **thought},
        {"type": "REASONING_MESSAGE_CONTENT", "delta": "One after the other.", **thought},
        {"type": "REASONING_MESSAGE_END", **thought},
        {"type": "REASONING_END", **thought},
        {"type": "STEP_FINISHED", "stepName": "think"},
        *text(f"text-{tag}", WORDS),
        {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/counted", "value": 9}]},
        *text(f"end-{tag}", ["That is ", "all."]),
        {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/counted", "value": 10}]},
        *({"type": "CUSTOM", "name": "n", "value": n} for n in range(4)),
    ]


ANSWERED = [
    ("user", "Count!"),
    ("reasoning", "One after the other."),
    ("assistant", "".join(WORDS)),
    ("assistant", "That is all."),
]


def shape(messages: List[Dict[str, Any]]) -> List[Any]:
    return [(message["role"], message["content"]) for message in messages]


async def new(client: AsyncThreadline) -> str:
    return (await client.threads.create()).thread_id


async def dies(server: Server, thread_id: str, events: List[Dict[str, Any]], **options: Any) -> None:
    """Produces a run like a process that dies once these events are durable."""
    process = AsyncThreadline(server.url)
    with pytest.raises(Closed):
        async with process.thread(thread_id).run(**{**OPENING, **options}) as run:
            await run.append(*events)
            await run.flush()
            await process.aclose()
            await run.append({"type": "CUSTOM", "name": "late", "value": 1})
            await run.flush()


async def test_killed_after_each_event_and_begun_again_by_a_body_that_knows_nothing(server: Server) -> None:
    events = answer("first")
    assert len(events) == 28

    async def one(client: AsyncThreadline, count: int) -> None:
        thread_id = await new(client)
        await dies(server, thread_id, events[:count])
        thread = client.thread(thread_id)
        async with thread.run(**OPENING) as run:
            assert (run.resumed, run.attempt) == (True, 2)
            assert run.stored.messages[0]["content"] == "Count!"
            assert run.stored.state == {"counted": 10 if count >= 24 else 9 if count >= 19 else 0}, count
            assert shape(await run.history()) == [("user", "Count!")]
            await run.append(*answer("second"))
        assert (run.record.status, run.record.attempt) == ("finished", 2)
        assert shape((await thread.messages()).messages) == ANSWERED, count
        assert (await thread.state()).state == {"counted": 10}

    async with AsyncThreadline(server.url) as client:
        await asyncio.gather(*(one(client, count) for count in range(29)))


async def goes_on(run: AsyncRun) -> None:
    """A body that says what `run.stored` lacks."""
    said = [message["content"] for message in run.stored.messages]
    if "One after the other." not in said:
        async with run.reasoning() as thought:
            await thought.write("One after the other.")
    if "".join(WORDS) not in said:
        async with run.text() as text:
            for word in WORDS:
                await text.write(word)
    if "That is all." not in said:
        await run.text().write("That is all.")


async def test_killed_after_each_event_and_continued(server: Server) -> None:
    events = answer("first")

    async def one(client: AsyncThreadline, count: int) -> None:
        thread_id = await new(client)
        await dies(server, thread_id, events[:count])
        thread = client.thread(thread_id)
        async with thread.run(**OPENING, on_existing="continue") as run:
            assert run.resumed
            await goes_on(run)
        assert run.record.status == "finished"
        assert shape((await thread.messages()).messages) == ANSWERED, count

    async with AsyncThreadline(server.url) as client:
        await asyncio.gather(*(one(client, count) for count in range(29)))


async def test_of_two_live_processes_one_is_fenced(server: Server) -> None:
    async with AsyncThreadline(server.url) as first, AsyncThreadline(server.url) as second:
        thread_id = await new(first)
        begun = asyncio.Event()

        async def displaced() -> None:
            async with first.thread(thread_id).run(**OPENING) as run:
                await run.text().write("Half an answer")
                await run.flush()
                begun.set()
                # The cancellation of the body arrives here.
                await asyncio.sleep(60)

        losing = asyncio.ensure_future(displaced())
        await begun.wait()
        async with second.thread(thread_id).run(**OPENING) as run:
            await run.append(*answer("second"))
            with pytest.raises(RunFenced) as caught:
                await asyncio.wait_for(losing, 20)
            assert caught.value.problem["attempt"] == 2
        assert shape((await second.thread(thread_id).messages()).messages) == ANSWERED


async def test_effects_are_not_repeated_in_silence(server: Server) -> None:
    call = [
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "pay"},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
    ]
    async with AsyncThreadline(server.url) as client:
        thread_id = await new(client)
        await dies(server, thread_id, call)
        with pytest.raises(RecoveryUnsafe):
            async with client.thread(thread_id).run(**OPENING):
                raise AssertionError("the body is called")
        assert (await client.thread(thread_id).run_record("run")).error_code == "recovery-unsafe"
        thread_id = await new(client)
        await dies(server, thread_id, call)
        async with client.thread(thread_id).run(**OPENING, tools_repeatable=True) as run:
            assert run.attempt == 2
        assert run.record.status == "finished"


async def test_a_run_whose_stop_was_asked_is_not_taken_up(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread_id = await new(client)
        await dies(server, thread_id, [])
        await client.thread(thread_id).stop("run")
        with pytest.raises(ThreadlineError):
            async with client.thread(thread_id).run(**OPENING):
                raise AssertionError("the body is called")
        path = f"/v1/threads/{thread_id}/runs/run"
        await until(lambda: server.request("GET", path)["status"] == "stopped")


PROGRAM = """
import sys, time
from threadline import Threadline, user
with Threadline(sys.argv[1]) as client:
    with client.thread(sys.argv[2]).run(run_id="job", messages=[user("Hello", id="m")], lease_seconds=60) as run:
        with run.text() as text:
            text.write("first process")
            run.flush()
            print("durable", flush=True)
            time.sleep(60)
"""


def test_a_process_that_is_killed_and_started_again(server: Server) -> None:
    with Threadline(server.url) as client:
        thread = client.thread(client.threads.create().thread_id)
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, server.url, thread.thread_id], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "durable\n"
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        with thread.run(run_id="job", messages=[user("Hello", id="m")]) as run:
            assert run.resumed and shape(run.stored.messages) == [("user", "Hello"), ("assistant", "first process")]
            with run.text() as text:
                text.write("second process")
        assert shape(thread.messages().messages) == [("user", "Hello"), ("assistant", "second process")]
