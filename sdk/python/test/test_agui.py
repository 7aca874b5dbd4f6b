"""Agents as endpoints, called by the real server and by clients of their own."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Dict, List

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from harness.server import Server
from harness.until import until
from starlette.applications import Starlette
from threadline import AsyncThreadline, ConfigError, StartedRun, user
from threadline import agui as agui_module
from threadline.agui import AgentRun, RunAgentInput, mount


class Agents:
    """What the agents of these tests have seen."""

    def __init__(self) -> None:
        self.inputs: List[RunAgentInput] = []
        self.cancelled = asyncio.Event()

    async def answer(self, input: RunAgentInput, run: AgentRun) -> None:
        self.inputs.append(input)
        async with run.reasoning() as thought:
            await thought.write("Hm.")
        text = run.text()
        for word in ("You said: ", input.messages[-1]["content"], "\u2028\ud800"):
            await text.write(word)
        async with run.tool_call("lookup", {"id": 7}) as call:
            await call.result({"attempt": run.attempt, "unverified": run.unverified})
        await run.state.set({"asked": len(input.messages)})

    async def ask(self, input: RunAgentInput, run: AgentRun) -> None:
        if input.resume:
            await run.text().write(f"So {input.resume[0]['payload']}.")
            return
        await run.text().write("May I?")
        await run.interrupt({"id": "ask", "message": "May I?"})

    async def fail(self, input: RunAgentInput, run: AgentRun) -> None:
        await run.text().write("a")
        raise LookupError("no parcel")

    async def mistake(self, input: RunAgentInput, run: AgentRun) -> None:
        try:
            await run.append({"no": "type"})
        except ConfigError:
            pass

    async def wait(self, input: RunAgentInput, run: AgentRun) -> None:
        try:
            while True:
                await run.custom("tick", 1)
                await asyncio.sleep(0.02)
        finally:
            self.cancelled.set()


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    config = uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1, ws="none")
    running = uvicorn.Server(config)
    task = asyncio.ensure_future(running.serve())
    await until(lambda: running.started)
    try:
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    finally:
        running.should_exit = True
        await task


def app_of(agents: Agents, kind: Any = Starlette) -> Any:
    app = kind()
    for name in ("answer", "ask", "fail", "mistake", "wait"):
        mount(app, f"/{name}", getattr(agents, name))
    return app


@pytest.mark.parametrize("kind", [Starlette, FastAPI])
async def test_the_server_calls_agents(kind: Any) -> None:
    agents = Agents()
    async with serving(app_of(agents, kind)) as url:
        flags = [flag for name in ("answer", "ask", "fail", "wait") for flag in ("--agent", f"{name}={url}/{name}")]
        server = await asyncio.to_thread(Server, None, flags)
        try:
            async with AsyncThreadline(server.url) as client:
                await _runs(client, agents)
        finally:
            await asyncio.to_thread(server.end)


async def _runs(client: AsyncThreadline, agents: Agents) -> None:
    async def run(agent_id: str, thread_id: str, **options: Any) -> Any:
        thread = client.thread(thread_id)
        started = await thread.start(agent_id, **options)
        assert isinstance(started, StartedRun)
        async with thread.subscribe(run_id=started.run.run_id) as items:
            async for _ in items:
                pass
        return await thread.run_record(started.run.run_id)

    for name in ("answer", "ask", "fail", "wait"):
        await client.threads.create(name)
    assert (await run("answer", "answer", messages=[user("Hello")])).status == "finished"
    answered = client.thread("answer")
    _, thought, text, _, result = (await answered.messages()).messages
    assert thought["content"] == "Hm." and text["content"].startswith("You said: Hello\u2028")
    assert json.loads(result["content"]) == {"attempt": 1, "unverified": []}
    assert (await answered.state()).state == {"asked": 1}
    assert (await run("answer", "answer", messages=[user("Again")])).status == "finished"
    assert [one["content"] for one in agents.inputs[1].messages if one["role"] == "user"] == ["Hello", "Again"]

    assert (await run("ask", "ask", messages=[user("Delete it")])).status == "finished"
    assert (await client.interrupts.list(agent_id="ask")).interrupts[0].interrupt["id"] == "ask"
    await run("ask", "ask", resume=[{"interruptId": "ask", "status": "resolved", "payload": "be it"}])
    assert (await client.thread("ask").messages()).messages[-1]["content"] == "So be it."

    failed = await run("fail", "fail", messages=[user("Where?")])
    assert (failed.status, failed.error_code, failed.error_message) == ("error", "agent-failed", "no parcel")

    started = await client.thread("wait").start("wait", messages=[user("Wait")])
    assert isinstance(started, StartedRun)
    await until(_has_events(client))
    await client.thread("wait").stop(started.run.run_id)
    await asyncio.wait_for(agents.cancelled.wait(), 60)


def _has_events(client: AsyncThreadline) -> Any:
    async def some() -> bool:
        return (await client.thread("wait").get()).tail > 3

    return some


async def call(url: str, body: Any, **headers: str) -> List[Dict[str, Any]]:
    async with httpx.AsyncClient() as http:
        response = await http.post(url, json=body, headers=headers)
        assert response.status_code == 200 and response.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith("data: ")]


INPUT = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hi"}], "ofALaterVersion": 1}


async def test_attempts_and_ends_of_a_run() -> None:
    agents = Agents()
    async with serving(app_of(agents)) as url:
        lost = [{"toolCallId": "c1", "name": "pay"}]
        body = {**INPUT, "forwardedProps": {"threadline": {"recovery": {"attempt": 2, "unverified": lost}}}}
        events = await call(f"{url}/answer", body, **{"Threadline-Attempt": "2"})
        assert [events[0]["type"], events[-1]["type"]] == ["RUN_STARTED", "RUN_FINISHED"]
        [result] = [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert json.loads(result) == {"attempt": 2, "unverified": lost}
        assert agents.inputs[0].extra == {"ofALaterVersion": 1}
        for name, types in (("fail", ["TEXT_MESSAGE_CONTENT", "RUN_ERROR"]), ("mistake", ["RUN_STARTED", "RUN_ERROR"])):
            assert [event["type"] for event in await call(f"{url}/{name}", INPUT)][-2:] == types


@pytest.mark.parametrize("body", ["", "[]", "{", '{"threadId": 1}', '{"threadId":"t","runId":"r","messages":[1]}'])
async def test_an_input_that_is_none(body: str) -> None:
    async with serving(app_of(Agents())) as url, httpx.AsyncClient() as http:
        response = await http.post(f"{url}/answer", content=body)
        assert response.status_code == 400 and "input" in response.json()["detail"]
        assert (await http.get(f"{url}/answer")).status_code == 405


async def test_a_caller_that_goes_cancels_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    agents = Agents()
    async with serving(app_of(agents)) as url, httpx.AsyncClient() as http:
        async with http.stream("POST", f"{url}/wait", json=INPUT) as response:
            async for _ in response.aiter_bytes():
                break
        await asyncio.wait_for(agents.cancelled.wait(), 60)


async def test_silence_is_filled_with_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agui_module, "ENDPOINT_BEAT", 0.05)
    commented = asyncio.Event()

    async def slow(input: RunAgentInput, run: AgentRun) -> None:
        await commented.wait()

    got: List[bytes] = []
    async for frame in agui_module.frames(slow, RunAgentInput("t", "r")):
        got.append(frame)
        if got.count(b":\n\n") == 2:
            commented.set()
    assert got[-1].startswith(b"data: ") and b"RUN_FINISHED" in got[-1]
