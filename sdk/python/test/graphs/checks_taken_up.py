"""Runs of graphs whose process is killed, and that another process takes up from the checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest
from harness.server import Server
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from threadline import AsyncThreadline, ConfigError, Threadline
from threadline.agui import AgentRun, RunAgentInput, frames
from threadline.langgraph import ThreadlineSaver, astream, stream
from threadline.pipe.langgraph import LangGraphItems

from .conftest import KEY
from .programs.answering import State, graph

PROGRAM = Path(__file__).parent / "programs/answering.py"
SOURCES = Path(__file__).resolve().parents[2] / "src"

SAYS = {"think": "Let me see. ", "look": "at home", "tell": "It is at home. ", "close": "Anything else?"}
THINK = ["think Let", "think me", "think see.", "think call"]
TELL = ["tell It", "tell is", "tell at", "tell home.", "close Any", "close thing", "close else?"]
#: The lines that a whole run prints, from its first to its last attempt. A process is killed after one of them.
QUESTION = ["attempt 1", *THINK, "look"]
ANSWER = ["attempt 1", *TELL]
#: In the middle of a message, between two steps, and behind the checkpoint of a message. With FULL=1, after every line.
SOME = {("question", 2, "async"), ("question", 5, "sync"), ("answer", 6, "async")}
KILLS = [
    (turn, at, kind)
    for turn, lines in (("question", QUESTION), ("answer", ANSWER))
    for at in range(len(lines))
    for kind in ("async", "sync")
    if "FULL" in os.environ or (turn, at, kind) in SOME
]


def process(server: Server, user: str, thread_id: str, run_id: str, kind: str, turn: str, **more: str) -> subprocess.Popen[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(SOURCES),
        "THREADLINE_URL": server.url,
        "THREADLINE_API_KEY": KEY,
        **more,
    }
    command = [sys.executable, "-W", "error", str(PROGRAM), thread_id, run_id, kind, turn]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def killed(started: subprocess.Popen[str], after: int) -> List[str]:
    """Kills a process after its line `after`. Returns the lines that it has printed."""
    assert started.stdout is not None
    said: List[str] = []
    for line in started.stdout:
        said.append(line.strip())
        if len(said) > after:
            break
    started.send_signal(signal.SIGKILL)
    started.wait()
    started.stdout.close()
    return said


def finished(started: subprocess.Popen[str]) -> List[str]:
    output, _ = started.communicate(timeout=30)
    assert started.returncode == 0
    return output.splitlines()


def ids_of(client: Threadline, thread_id: str, contents: List[str]) -> Dict[str, str]:
    return {one["content"]: one["id"] for one in client.thread(thread_id).messages().messages if one.get("content") in contents}


def shown(client: Threadline, thread_id: str) -> List[Dict[str, Any]]:
    """The messages that readers see, without ids."""
    return [{name: value for name, value in one.items() if name != "id"} for one in client.thread(thread_id).messages().messages]


CALLED = {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": '{"id":7}'}}
ASKED: List[Dict[str, Any]] = [
    {"role": "user", "content": "Where is my parcel?"},
    {"role": "assistant", "content": "Let me see. ", "toolCalls": [CALLED]},
    {"role": "tool", "content": "at home", "toolCallId": "call-1"},
]
TOLD: List[Dict[str, Any]] = [
    {"role": "assistant", "content": "It is at home. "},
    {"role": "assistant", "content": "Anything else?"},
]


@pytest.mark.parametrize(("turn", "after", "kind"), KILLS)
def test_a_killed_run_continues_from_the_checkpoint(
    server: Server, client: Threadline, user: str, turn: str, after: int, kind: str
) -> None:
    thread_id = f"{user}-{kind}"
    client.threads.create(thread_id)
    lines = QUESTION if turn == "question" else ANSWER

    def started(of: str, run: str, seconds: str = "0", interrupt: Optional[str] = None) -> subprocess.Popen[str]:
        return process(server, user, thread_id, run, kind, of, PIECE_SECONDS=seconds, INTERRUPT=interrupt or "")

    interrupt = None
    if turn == "answer":
        assert finished(started("question", "run-1")) == [*QUESTION, "finished"]
        [asked] = client.thread(thread_id).interrupts()
        interrupt = asked["id"]
    run_id = "run-1" if turn == "question" else "run-2"
    said = killed(started(turn, run_id, "0.4", interrupt), after)
    assert said == lines[: after + 1]
    # Steps before the one in which the process was killed are in the checkpoint: their messages keep their ids.
    node = said[-1].split()[0]
    done = [SAYS[step] for step in list(SAYS)[: list(SAYS).index(node)]] if node in SAYS else []
    before = ids_of(client, thread_id, done)
    again = finished(started(turn, run_id, "0", interrupt))
    first = next((at for at, line in enumerate(lines) if line.split()[0] == node), 0) if after else 1
    assert again == ["attempt 2", *lines[first:], "finished"]
    assert shown(client, thread_id) == (ASKED if turn == "question" else [*ASKED, *TOLD])
    now = ids_of(client, thread_id, done)
    assert {content: now[content] for content in before} == before
    if turn == "question":
        assert len(client.thread(thread_id).interrupts()) == 1
    assert client.thread(thread_id).state().state["steps"][-1] == ("look" if turn == "question" else "close")


class Resumed:
    """A run that was taken up."""

    resumed = True

    def __init__(self, run_id: str, on_existing: str = "restart") -> None:
        self.run_id = run_id
        self._on_existing = on_existing


def ended(client: Threadline, thread_id: str) -> Any:
    """A graph that has ended, in two runs, and its config."""
    config: Any = {"configurable": {"thread_id": thread_id}}
    built = graph(ThreadlineSaver(client))
    built.invoke({"messages": [("user", "Where?")]}, {**config, "metadata": {"run_id": "run-1"}})
    built.invoke(Command(resume="yes"), {**config, "metadata": {"run_id": "run-2"}})
    return built, config


def test_of_a_graph_that_has_ended_only_the_messages_of_the_run_are_shown(client: Threadline, user: str) -> None:
    """The process died behind the last checkpoint, before the end of its run."""
    built, config = ended(client, user)
    finished, values = list(stream(Resumed("run-2"), built, None, config))
    assert [one.content for one in finished.messages] == [SAYS["tell"], SAYS["close"]]
    assert values[0] == "values" and values[1]["steps"][-1] == "close"
    events = LangGraphItems()
    texts = [event.get("delta") for item in (finished, values) for event in events.feed(item) if "delta" in event]
    assert texts == [SAYS["tell"], SAYS["close"]] and events.end() == []


async def test_the_same_asynchronously(connect: Callable[[], AsyncThreadline], client: Threadline, user: str) -> None:
    _, config = ended(client, user)
    async with connect() as asynchronous:
        built = graph(ThreadlineSaver(asynchronous))
        finished, _ = [item async for item in astream(Resumed("run-2"), built, None, config)]
        assert [one.content for one in finished.messages] == [SAYS["tell"], SAYS["close"]]
        assert len([one async for one in astream(Resumed("run-2"), built, None, config, stream_mode="updates")]) == 1


async def test_an_endpoint_that_is_called_again_continues(connect: Callable[[], AsyncThreadline], client: Threadline, user: str) -> None:
    """The server that has called an agent is lost, and another one calls it again: the attempt has the number 2."""
    input = RunAgentInput(client.threads.create(user).thread_id, "run", messages=[{"role": "user", "content": "Where?"}])
    config: Any = {"configurable": {"thread_id": user}}
    async with connect() as asynchronous:
        built = graph(ThreadlineSaver(asynchronous))

        async def agent(input: RunAgentInput, run: AgentRun) -> None:
            given = {"messages": [("user", input.messages[-1]["content"])]}
            await run.pipe(astream(run, built, given, config, durability="sync"))

        first = frames(agent, input)
        async for frame in first:
            if b"at home" in frame:
                break
        await first.aclose()
        said = [json.loads(frame.removeprefix(b"data: ")) async for frame in frames(agent, input, 2)]
    assert [one["delta"] for one in said if one["type"] == "TEXT_MESSAGE_CONTENT"] == [SAYS["think"]]
    assert [one["toolCallName"] for one in said if one["type"] == "TOOL_CALL_START"] == ["look"]
    assert said[-1]["type"] == "RUN_FINISHED" and said[-1]["outcome"]["type"] == "interrupt"


def test_another_run_starts_from_its_input(client: Threadline, user: str) -> None:
    """The newest checkpoint is that of another run, of which nothing is written again."""
    built, config = ended(client, user)
    items: List[Any] = list(stream(Resumed("run-3"), built, {"messages": [("user", "And now?")]}, config, stream_mode="updates"))
    assert [list(one)[0] for one in items] == ["think", "look", "__interrupt__"]


def test_a_subgraph_that_has_not_ended_is_shown_as_well(client: Threadline, user: str) -> None:
    config: Any = {"configurable": {"thread_id": user}, "metadata": {"run_id": "run"}}
    outer: Any = StateGraph(State).add_node("inner", graph(None)).add_edge(START, "inner").compile(checkpointer=ThreadlineSaver(client))
    outer.invoke({"messages": [("user", "Where?")]}, config)
    for subgraphs, shown in ((True, [SAYS["think"], SAYS["look"]]), (False, [])):
        finished, *rest = stream(Resumed("run"), outer, None, config, subgraphs=subgraphs)
        assert [one.content for one in finished.messages if one.type != "human"] == shown and rest


def test_a_run_that_keeps_its_messages_is_refused(client: Threadline, user: str) -> None:
    built, config = ended(client, user)
    with pytest.raises(ConfigError, match='on_existing="restart"'):
        next(stream(Resumed("run-2", "continue"), built, None, config))
