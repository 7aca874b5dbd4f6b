"""The producer: what a run writes, its writers, its end, and what the network and the server do to it."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from typing import Any, Dict, List

import pytest
from harness.proxy import Proxy
from harness.server import Server
from harness.until import until
from harness.writing import STRANGE
from threadline import (
    AsyncRun,
    AsyncThread,
    AsyncThreadline,
    Closed,
    ConfigError,
    NotResumed,
    Retries,
    RunEnded,
    StreamFailed,
    Threadline,
    user,
)
from threadline.problems import InvalidEvent, RunActive, RunFenced, RunNotFound


async def new(client: AsyncThreadline) -> AsyncThread:
    return client.thread((await client.threads.create()).thread_id)


def types(server: Server, thread_id: str) -> List[str]:
    return [one["event"]["type"] for one in server.log(thread_id)]


WRITTEN = [
    "RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED", "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT",
    "REASONING_MESSAGE_END", "REASONING_END", "STEP_FINISHED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
    "STATE_DELTA", "CUSTOM", "RUN_FINISHED",
]  # fmt: skip


async def test_a_run_with_all_writers(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        await thread.put_run("before", [{"type": "TEXT_MESSAGE_CHUNK", "messageId": "m0", "delta": "Before"}])
        async with thread.run(messages=[user("Where?", id="m1")], state={"a": 1}, agent_id="trips") as run:
            assert [one["id"] for one in await run.history()] == ["m0", "m1"] and not run.resumed and run.attempt == 1
            async with run.step("think"):
                async with run.reasoning() as thought:
                    await thought.write("Hm.")
            async with run.text() as text:
                await text.write(STRANGE)
                await text.write("")
                await text.write("\ud800")
            async with run.tool_call("lookup", {"id": 7}) as call:
                await call.result({"found": True})
            await run.state.patch([{"op": "add", "path": "/b", "value": 2**60 + 1}])
            await run.custom("progress", {"percent": 50})
        assert (run.record.status, run.record.agent_id, run.record.producer_seq) == ("finished", "trips", 20)
        assert types(server, thread.thread_id)[2:] == WRITTEN
        _, question, thought_, answer, called, result = (await thread.messages()).messages
        assert (question["content"], thought_["content"], answer["role"]) == ("Where?", "Hm.", "assistant")
        assert called["toolCalls"][0]["function"] == {"name": "lookup", "arguments": '{"id":7}'}
        assert json.loads(result["content"]) == {"found": True}
        assert (await thread.state()).state == {"a": 1, "b": 2**60 + 1}
        assert server.log(thread.thread_id)[11]["event"]["type"] == "TEXT_MESSAGE_START"


def test_a_synchronous_run_with_all_writers(server: Server) -> None:
    with Threadline(server.url) as client:
        thread = client.thread(client.threads.create().thread_id)
        with thread.run(messages=[user("Where?")], state={"a": 1}) as run:
            with run.step("think"), run.reasoning() as thought:
                thought.write("Hm.")
            with run.text() as text:
                text.write(STRANGE)
                text.write("\ud800")
            with run.tool_call("lookup") as call:
                call.write('{"id":7}')
                call.result("found")
            run.state.patch([{"op": "add", "path": "/b", "value": 2}])
            run.custom("progress", {"percent": 50})
        assert run.record.status == "finished"
        assert types(server, thread.thread_id) == WRITTEN


async def test_validation_of_the_server_accepts_what_writers_write(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread, copy = await new(client), await new(client)
        async with thread.run(run_id="r", messages=[user("Where?")], state={}) as run:
            async with run.reasoning() as thought, run.text() as text:
                await thought.write("a")
                await text.write("b")
            async with run.tool_call("lookup", {}) as call:
                await call.result(None)
            await run.interrupt({"message": "Go on?"})
        events = [one["event"] for one in server.log(thread.thread_id)]
        renamed = json.loads(json.dumps(events).replace(thread.thread_id, copy.thread_id))
        path = f"/v1/threads/{copy.thread_id}/runs/r?validate=ag-ui"
        assert (await asyncio.to_thread(server.request, "PUT", path, renamed))["run"]["status"] == "finished"


async def test_what_a_body_leaves_open_is_ended_in_order(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run() as run:
            text, call, unused = run.text(), run.tool_call("lookup"), run.text()
            await text.write("a")
            await call.write("{}")
            assert unused.message_id
        assert types(server, thread.thread_id)[-4:-1] == ["TOOL_CALL_ARGS", "TEXT_MESSAGE_END", "TOOL_CALL_END"]
        with pytest.raises(Closed):
            await run.append({"type": "CUSTOM", "name": "late", "value": 1})


async def test_an_exception_fails_the_run_and_propagates(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        with pytest.raises(LookupError, match="no parcel"):
            async with thread.run() as run:
                async with run.text() as text:
                    await text.write("a")
                    raise LookupError("no parcel")
        assert (run.record.status, run.record.error_code, run.record.error_message) == ("error", "producer-failed", "no parcel")
        assert types(server, thread.thread_id)[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]


async def test_an_event_that_is_refused_is_not_lost_in_silence(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        wrong: List[Any] = [
            lambda run: run.append({"no": "type"}),
            lambda run: run.append("text"),
            lambda run: run.append({"type": "CUSTOM", "value": float("nan")}),
            lambda run: run.append({"type": "CUSTOM", "value": object()}),
            lambda run: run.custom("threadline.attempt", 1),
            lambda run: run.append({"type": "RUN_STARTED", "threadId": "another", "runId": "run"}),
            lambda run: run.interrupt(),
        ]
        for act in wrong:
            with pytest.raises(ConfigError):
                async with thread.run() as run:
                    with pytest.raises(ConfigError):
                        await act(run)
            assert run.record.error_code == "producer-failed"
        with pytest.raises(ConfigError, match="after the end"):
            async with thread.run() as run:
                text = run.text()
                await text.write("a")
                await text.end()
                await text.write("b")
        bad: List[Dict[str, Any]] = [{"lease_seconds": 0}, {"on_existing": "ignore"}, {"stop": "ask"}]
        for options in bad:
            with pytest.raises(ConfigError):
                thread.run(**options)


async def test_a_second_run_and_the_events_of_the_own_start(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run(run_id="r1") as run:
            await run.append({"type": "RUN_STARTED", "threadId": thread.thread_id, "runId": "r1"})
            with pytest.raises(RunActive) as caught:
                async with thread.run(run_id="r2"):
                    raise AssertionError("two runs at once")
            assert caught.value.problem["run"]["runId"] == "r1"
            await run.append({"type": "RUN_FINISHED", "threadId": thread.thread_id, "runId": "r1"})
        assert run.record.status == "finished" and types(server, thread.thread_id) == ["RUN_STARTED", "RUN_FINISHED"]
        with pytest.raises(RunEnded) as ended:
            async with thread.run(run_id="r1"):
                raise AssertionError("a run that has ended")
        assert ended.value.record.status == "finished"
        calls: List[AsyncRun] = []

        async def body(run: AsyncRun) -> None:
            calls.append(run)

        assert (await thread.run_once(body, run_id="r1")).run_id == "r1" and not calls
        assert (await thread.run_once(body, run_id="r3")).status == "finished" and len(calls) == 1


async def test_an_interrupt_leaves_the_body_and_is_answered(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run() as run:
            text = run.text()
            await text.write("May I?")
            await run.interrupt({"id": "ask", "message": "Delete it?"})
            raise AssertionError("the body goes on")
        assert run.record.status == "finished" and (await thread.interrupts())[0]["id"] == "ask"
        answer = {"interruptId": "ask", "status": "resolved", "payload": True}
        async with thread.run(resume=[answer]) as run:
            await run.text().write("Done.")
        assert await thread.interrupts() == []


async def test_chunks_without_ids_get_them(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run(run_id="r") as run:
            chunk = {"type": "TEXT_MESSAGE_CHUNK"}
            await run.append({**chunk, "delta": "a"}, {**chunk, "delta": "b"}, {"type": "CUSTOM", "name": "n", "value": 0})
            await run.append({**chunk, "delta": "c"}, {**chunk, "delta": "d", "role": "user"})
        messages = (await thread.messages()).messages
        assert [(one["id"], one["content"]) for one in messages] == [("r-2", "ab"), ("r-5", "c"), ("r-6", "d")]


async def test_a_stream_of_a_model_is_piped(server: Server) -> None:
    async def stream() -> Any:
        for content in ("Hello", ", world"):
            yield {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": content}}]}
        yield {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}

    async def failing() -> Any:
        yield {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "He"}}]}
        yield {"error": {"message": "the model is away"}}

    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run(messages=[user("Hi")]) as run:
            await run.pipe(stream())
        assert [message["content"] for message in (await thread.messages()).messages] == ["Hi", "Hello, world"]
        with pytest.raises(StreamFailed, match="the model is away"):
            async with thread.run() as run:
                await run.pipe(failing())
        assert (await thread.run_record(run.run_id)).status == "error"


async def test_a_stream_of_events_is_piped(server: Server) -> None:
    closed: List[bool] = []

    async def stream() -> Any:
        try:
            yield {"type": "RUN_STARTED", "threadId": "another", "runId": "another"}
            for delta in "abc":
                yield {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": delta}
            yield {"type": "RUN_FINISHED", "outcome": {"type": "interrupt", "interrupts": [{"id": "i", "reason": "x"}]}}
        finally:
            closed.append(True)

    async def failing() -> Any:
        yield {"type": "TEXT_MESSAGE_CHUNK", "messageId": "n", "delta": "d"}
        yield {"type": "RUN_ERROR", "message": "the model is away"}

    async def unknown() -> Any:
        yield 7

    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        with pytest.raises(Exception, match="the model is away"):
            async with thread.run() as run:
                await run.pipe(failing())
        with pytest.raises(ConfigError, match="int"):
            async with thread.run() as run:
                await run.pipe(unknown())
        async with thread.run() as run:
            await run.pipe(stream())
        assert closed and [one["content"] for one in (await thread.messages()).messages] == ["d", "abc"]
        assert (await thread.interrupts())[0]["id"] == "i"


async def test_a_stream_that_is_a_context_manager_is_entered_and_left(server: Server) -> None:
    left: List[Any] = []

    @asynccontextmanager
    async def opened(*events: Any) -> Any:
        async def stream() -> Any:
            for event in events:
                yield event

        try:
            yield stream()
        except Exception as error:
            left.append(error)
            raise
        left.append(None)

    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run() as run:
            await run.pipe(opened({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "abc"}))
        assert [one["content"] for one in (await thread.messages()).messages] == ["abc"]
        with pytest.raises(ConfigError, match="int"):
            async with thread.run() as run:
                await run.pipe(opened(7))
    assert left[0] is None and isinstance(left[1], ConfigError) and len(left) == 2


async def test_appends_in_flight_share_requests(server: Server, proxy: Proxy) -> None:
    async with AsyncThreadline(proxy.url) as client:
        thread = await new(client)
        async with thread.run() as run:
            for n in range(5_000):
                await run.append({"type": "CUSTOM", "name": "n", "value": n})
            await run.flush()
            assert (await thread.run_record(run.run_id)).producer_seq == 5_001
        appends = [request for request in proxy.requests if "/events?" in request]
        assert 5 <= len(appends) <= 12
        values = [one["event"].get("value") for one in server.log(thread.thread_id)]
        assert values[1:-1] == list(range(5_000))


async def test_answers_that_are_lost_repeat_nothing(server: Server, proxy: Proxy) -> None:
    async with AsyncThreadline(proxy.url) as client:
        thread = await new(client)
        proxy.swallow_answers = 1
        async with thread.run(messages=[user("Hello")]) as run:
            assert run.attempt == 1
            for n in range(20):
                proxy.swallow_answers = 1 if n % 5 == 0 else 0
                await run.append({"type": "CUSTOM", "name": "n", "value": n})
                await run.flush()
            proxy.swallow_answers = 1
        values = [one["event"].get("value") for one in server.log(thread.thread_id)]
        assert values[1:-1] == list(range(20)) and run.record.status == "finished"


async def test_commits_that_the_server_loses_are_sent_again(own_server: Server) -> None:
    async with AsyncThreadline(own_server.url) as client:
        thread = await new(client)
        async with thread.run(run_id="r", lease_seconds=60) as run:
            for n in range(10):
                await run.append({"type": "CUSTOM", "name": "n", "value": n})
                await run.flush()
                if n == 4:
                    saved = await asyncio.to_thread(own_server.save)
            await asyncio.to_thread(own_server.lose, saved)
        values = [one["event"].get("value") for one in own_server.log(thread.thread_id)]
        assert values[1:-1] == list(range(10)) and run.record.status == "finished"
        # A whole run is lost, and its thread is not.
        saved = await asyncio.to_thread(own_server.save)
        async with thread.run(run_id="s", lease_seconds=60) as run:
            await run.append({"type": "CUSTOM", "name": "m", "value": 1})
            await run.flush()
            await asyncio.to_thread(own_server.lose, saved)
            await run.append({"type": "CUSTOM", "name": "m", "value": 2})
        values = [one["event"].get("value") for one in own_server.log(thread.thread_id) if one["runId"] == "s"]
        assert values[1:-1] == [1, 2] and run.record.status == "finished"


async def test_a_silent_body_keeps_its_lease(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run(lease_seconds=1) as run:
            await asyncio.sleep(2.5)
            assert (await thread.run_record(run.run_id)).ended_at is None
        assert run.record.status == "finished"


async def test_a_body_that_blocks_the_event_loop_is_told_and_fenced(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    async with AsyncThreadline(server.url) as client, AsyncThreadline(server.url) as other:
        thread = await new(client)
        with pytest.raises(RunFenced):
            async with thread.run(lease_seconds=1) as run:
                await asyncio.to_thread(lambda: None)
                await asyncio.sleep(0)
                # Longer than the lease and the wait of the next heartbeat together, from which the block is told.
                time.sleep(1.5)
                while server.request("GET", f"/v1/threads/{thread.thread_id}/runs/{run.run_id}")["endedAt"] is None:
                    time.sleep(0.1)
                await asyncio.sleep(30)
        assert "the event loop was blocked" in caplog.text and run.run_id in caplog.text
        record = await other.thread(thread.thread_id).run_record(run.run_id)
        assert record.error_code == "lease-expired"


async def test_a_process_that_is_gone_loses_its_run(server: Server) -> None:
    client = AsyncThreadline(server.url)
    thread = await new(client)
    with pytest.raises(Closed):
        async with thread.run(run_id="r", lease_seconds=1) as run:
            await run.flush()
            await client.aclose()
            await run.append({"type": "CUSTOM", "name": "n", "value": 1})
            await run.flush()
    path = f"/v1/threads/{thread.thread_id}/runs/r"
    await until(lambda: server.request("GET", path)["errorCode"] == "lease-expired")


async def test_a_server_that_does_not_come_back(server: Server, proxy: Proxy) -> None:
    async with AsyncThreadline(proxy.url, retries=Retries(producers=0.5)) as client:
        thread = await new(client)
        began = time.monotonic()
        with pytest.raises(Exception, match="no connection"):
            async with thread.run() as run:
                proxy.refuse = True
                proxy.cut()
                await run.append({"type": "CUSTOM", "name": "n", "value": 1})
                await asyncio.sleep(60)
        assert time.monotonic() - began < 15


async def test_memory_is_bounded_and_large_events_pass(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        async with thread.run() as run:
            for _ in range(12):
                await run.append({"type": "CUSTOM", "name": "n", "value": "x" * 2_000_000})
                assert run._producer._pending._size <= 18_100_000
        assert run.record.producer_seq == 14
        with pytest.raises(ConfigError, match="await each append"):
            async with thread.run() as run:
                events: Dict[str, Any] = {"type": "CUSTOM", "name": "n", "value": 1}
                await asyncio.gather(*(run.append(*[events] * 1_000) for _ in range(30)))


async def test_refuse_writes_nothing(server: Server) -> None:
    async with AsyncThreadline(server.url) as first, AsyncThreadline(server.url) as second:
        thread = await new(first)
        async with thread.run(run_id="job", messages=[user("Hello", id="m")], state={"a": 1}) as run:
            text = run.text(message_id="t")
            await text.write("Half")
            await run.flush()
            tail = (await thread.get()).tail
            with pytest.raises(NotResumed) as caught:
                async with second.thread(thread.thread_id).run(run_id="job", on_existing="refuse"):
                    raise AssertionError("a run of another process")
            assert (await thread.get()).tail == tail
            stored = caught.value.stored
            assert [one["content"] for one in stored.messages] == ["Hello", "Half"] and stored.state == {"a": 1}
            assert caught.value.record.run_id == "job"
        assert run.record.status == "finished"


async def test_events_that_do_not_conform_are_refused(server: Server) -> None:
    bad: Dict[str, Any] = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": 5}
    async with AsyncThreadline(server.url) as client:
        thread = await new(client)
        with pytest.raises(InvalidEvent) as refused:
            async with thread.run(agent_id="trips") as run:
                async with run.text() as text:
                    await text.write("Hi")
                await run.flush()
                try:
                    await run.append(bad)
                    await run.flush()
                except InvalidEvent:
                    pass  # the end of the block raises it again
        assert refused.value.problem["path"] == "/delta" and refused.value.problem["expected"]
        assert (await thread.run_record(run.run_id)).status == "error"
        log = [one["event"] for one in server.log(thread.thread_id)]
        assert (log[-1]["type"], log[-1]["code"]) == ("RUN_ERROR", "invalid-event") and bad not in log
        # An event of the opening: the run does not begin.
        with pytest.raises(InvalidEvent):
            async with thread.run(messages=[{"id": "u", "role": "nobody", "content": "Hi"}], run_id="never"):
                raise AssertionError("the body of a run that did not begin")
        with pytest.raises(RunNotFound):
            await thread.run_record("never")
        with pytest.raises(InvalidEvent):
            await thread.put_run("whole", [{"type": "RUN_STARTED", "threadId": thread.thread_id, "runId": "whole"}, bad], validate=True)
        # Own types, for those who ask for it: of one run, or of all.
        async with thread.run(validate=False) as run:
            await run.append({"type": "app.note", "text": "own"})
    async with AsyncThreadline(server.url, validate=False) as client:
        async with client.thread(thread.thread_id).run() as run:
            await run.append({"type": "app.note", "text": "own"})
    assert types(server, thread.thread_id).count("app.note") == 2
