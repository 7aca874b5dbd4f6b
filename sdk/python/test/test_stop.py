"""Stop, cancellation from outside, exceptions and the end of the event loop, in each order."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, List

import pytest
from harness.server import Server
from harness.until import until, wait_until
from threadline import AsyncRun, AsyncThread, AsyncThreadline, StopRequested, Threadline
from threadline._async import producer as producer_module


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats tell of stops: often, so that tests are quick."""
    monkeypatch.setattr(producer_module, "BEAT_MAX", 0.1)


async def new(client: AsyncThreadline) -> AsyncThread:
    return client.thread((await client.threads.create()).thread_id)


async def status_of(thread: AsyncThread, run: AsyncRun) -> List[Any]:
    record = await thread.run_record(run.run_id)
    return [record.status, record.error_code]


def cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling() if sys.version_info >= (3, 11) else 0


async def test_a_part_that_a_stop_refuses_has_no_end_either(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run(stop="flag") as run:
            await thread.stop(run.run_id)
            await until(lambda: run.stop_requested)
            async with run.text() as text:
                await text.write("never")
        assert run.record.status == "stopped"
        types = [one["event"]["type"] for one in server.log(thread.thread_id)]
        assert types == ["RUN_STARTED", "RUN_FINISHED"]


async def test_a_stop_cancels_the_body_and_is_a_normal_end(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        ended: List[str] = []
        async with thread.run() as run:
            text = run.text()
            await text.write("Half")
            await run.flush()
            await thread.stop(run.run_id)
            try:
                await asyncio.sleep(30)
            finally:
                ended.append("cleaned up")
                await text.write(" and a goodbye")
        assert (run.record.status, run.stop_requested, ended, cancelling()) == ("stopped", True, ["cleaned up"], 0)
        assert (await thread.messages()).messages[0]["content"] == "Half and a goodbye"
        # The task can go on.
        await asyncio.sleep(0.01)


async def test_a_body_that_swallows_its_cancellation(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run() as run:
            await thread.stop(run.run_id)
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                pass
            await run.custom("last", "word")
        assert run.record.status == "stopped" and cancelling() == 0
        await asyncio.sleep(0.01)


async def test_a_stop_that_comes_as_the_body_ends(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        for _ in range(5):
            async with thread.run() as run:
                await thread.stop(run.run_id)
                deadline = time.monotonic() + 5
                while not run.stop_requested and time.monotonic() < deadline:
                    # The cancellation is on its way when the body ends.
                    try:
                        await asyncio.sleep(0.005)
                    except asyncio.CancelledError:
                        break
            assert run.record.status == "stopped" and cancelling() == 0
            await asyncio.sleep(0)


async def test_the_body_ends_before_its_cancellation_arrives(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run() as run:
            await run.flush()
            await thread.stop(run.run_id)
            run._producer.stop_requested = True
            assert run._body is not None
            run._body.cancel()
        assert run.record.status == "stopped" and cancelling() == 0
        await asyncio.sleep(0)


async def test_an_exception_after_a_stop_propagates_and_the_run_is_stopped(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        with pytest.raises(LookupError):
            async with thread.run() as run:
                await thread.stop(run.run_id)
                try:
                    await asyncio.sleep(30)
                finally:
                    raise LookupError("clean-up failed")
        assert run.record.status == "stopped" and cancelling() == 0


async def test_a_cancellation_from_outside_wins(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        began = asyncio.Event()
        runs: List[AsyncRun] = []

        async def work() -> None:
            async with thread.run() as run:
                runs.append(run)
                await run.text().write("Half")
                began.set()
                await asyncio.sleep(30)

        task = asyncio.ensure_future(work())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await status_of(thread, runs[0]) == ["error", "producer-cancelled"]
        assert (await thread.messages()).messages[0]["content"] == "Half"


@pytest.mark.parametrize("order", ["stop, then cancel", "cancel, then stop", "at once"])
async def test_stop_and_cancellation_from_outside(server: Server, order: str) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        began, stopping = asyncio.Event(), asyncio.Event()
        runs: List[AsyncRun] = []

        async def work() -> None:
            async with thread.run() as run:
                runs.append(run)
                began.set()
                try:
                    await asyncio.sleep(30)
                finally:
                    stopping.set()
                    if order != "at once":
                        await asyncio.sleep(0.3)

        task = asyncio.ensure_future(work())
        await began.wait()
        run = runs[0]
        if order == "stop, then cancel":
            await thread.stop(run.run_id)
            await stopping.wait()
            task.cancel()
        elif order == "cancel, then stop":
            task.cancel()
            await stopping.wait()
            await thread.stop(run.run_id)
        else:
            assert run._body is not None
            run._producer.stop_requested = True
            task.cancel()
            run._body.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        status, code = await status_of(thread, run)
        # The server names a run that was asked to stop so, whatever its last words are.
        assert (status, code) in [("stopped", "producer-cancelled"), ("stopped", None), ("error", "producer-cancelled")]


async def test_a_timeout_around_the_run_wins(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        runs: List[AsyncRun] = []

        async def work() -> None:
            async with thread.run() as run:
                runs.append(run)
                await asyncio.sleep(30)

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(work(), 0.5)
        assert await status_of(thread, runs[0]) == ["error", "producer-cancelled"]


async def test_a_cancellation_while_the_run_begins_leaves_no_run(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        for delay in (0.0, 0.001, 0.003, 0.01, 0.03):

            async def work() -> None:
                async with thread.run():
                    await asyncio.sleep(30)

            task = asyncio.ensure_future(work())
            await asyncio.sleep(delay)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(_no_run_is_active(thread))


def _no_run_is_active(thread: AsyncThread) -> Callable[[], Any]:
    async def none() -> bool:
        return (await thread.get()).active_run is None

    return none


async def test_a_flag_in_place_of_a_cancellation(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run(stop="flag") as run:
            await thread.stop(run.run_id)
            text = run.text()
            await text.write("a")
            await until(lambda: run.stop_requested)
            with pytest.raises(StopRequested):
                await text.write("b")
            await text.write("c")
        assert run.record.status == "stopped"
        assert (await thread.messages()).messages[0]["content"] == "a"


def test_a_stop_of_a_synchronous_run(server: Server) -> None:
    with Threadline(server.url) as client:
        thread = client.thread(client.threads.create().thread_id)
        began = time.monotonic()
        with thread.run() as run:
            thread.stop(run.run_id)
            with run.text() as text:
                while True:
                    text.write("a")
                    time.sleep(0.01)
        # Heartbeats are not hastened here: a stop reaches a body within 3 s.
        assert run.record.status == "stopped" and run.stop_requested and time.monotonic() - began < 3.2
        assert not [one for one in threading.enumerate() if one.name.startswith("threadline")]


LOOP_EXIT = """
import asyncio, sys
from threadline import AsyncThreadline

begun = asyncio.Event()

async def produce(thread):
    async with thread.run(run_id="run") as run:
        for n in range(50):
            await run.append({"type": "CUSTOM", "name": "n", "value": n})
        print("begun", flush=True)
        begun.set()
        await asyncio.sleep(60)

async def main():
    async with AsyncThreadline(sys.argv[1]) as client:
        thread = client.thread(sys.argv[2])
        await produce(thread)

async def outlived():
    client = AsyncThreadline(sys.argv[1])
    task = asyncio.ensure_future(produce(client.thread(sys.argv[2])))
    await begun.wait()
    return client, task

if sys.argv[3] == "task":
    asyncio.run(outlived())
else:
    asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["task", "interrupt"])
def test_the_end_of_the_event_loop_ends_the_run(server: Server, how: str) -> None:
    thread_id = server.request("POST", "/v1/threads", {})["threadId"]
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP_EXIT, server.url, thread_id, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    if how == "interrupt":
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "Task exception was never retrieved" not in errors and "was never awaited" not in errors, errors
    record = server.request("GET", f"/v1/threads/{thread_id}/runs/run")
    assert (record["status"], record["errorCode"]) == ("error", "producer-cancelled"), errors
    values = [one["event"].get("value") for one in server.log(thread_id)]
    assert values[1:-1] == list(range(50))


def test_a_keyboard_interrupt_of_a_synchronous_run(server: Server) -> None:
    with Threadline(server.url) as client:
        thread = client.thread(client.threads.create().thread_id)
        with pytest.raises(KeyboardInterrupt):
            with thread.run() as run:
                raise KeyboardInterrupt
        assert (run.record.status, run.record.error_code) == ("error", "producer-cancelled")
        wait_until(lambda: not [one for one in threading.enumerate() if one.name.startswith("threadline")])
