"""Graphs of LangGraph that keep their checkpoints in threads."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, Callable, Dict, List, Sequence, TypedDict

import pytest
from harness.proxy import Proxy
from harness.server import Server
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Command, interrupt
from threadline import AsyncThreadline, Threadline
from threadline.langgraph import ThreadlineSaver, ThreadlineStore

from .conftest import KEY

EXAMPLE = Path(__file__).resolve().parents[4] / "examples/langgraph/agent.py"
SOURCES = Path(__file__).resolve().parents[2] / "src"


class State(TypedDict):
    said: Annotated[List[str], operator.add]


#: Ids of threads are unique in a project, so each test has ids of its own.
own = {"prefix": ""}


@pytest.fixture(autouse=True)
def own_ids(user: str) -> None:
    own["prefix"] = user


def at(name: str) -> Any:
    return {"configurable": {"thread_id": f"{own['prefix']}-{name}"}}


def asking() -> Any:
    """Greets, asks a person, and answers."""

    def greet(state: State) -> Dict[str, Any]:
        return {"said": ["hello"]}

    def ask(state: State) -> Dict[str, Any]:
        return {"said": [f"you said {interrupt('what?')}"]}

    graph = StateGraph(State).add_node("greet", greet).add_node("ask", ask)
    return graph.add_edge(START, "greet").add_edge("greet", "ask").add_edge("ask", END)


def test_an_interrupt_is_answered_by_another_graph(client: Threadline) -> None:
    asked = asking().compile(checkpointer=ThreadlineSaver(client)).invoke({"said": []}, at("asked"))
    assert [one.value for one in asked["__interrupt__"]] == ["what?"]
    graph = asking().compile(checkpointer=ThreadlineSaver(client))
    assert graph.get_state(at("asked")).next == ("ask",)
    assert graph.invoke(Command(resume="yes"), at("asked"))["said"] == ["hello", "you said yes"]
    assert graph.invoke({"said": ["again"]}, at("asked"))["said"][:3] == ["hello", "you said yes", "again"]


async def test_the_same_asynchronously(connect: Callable[[], AsyncThreadline]) -> None:
    async with connect() as client:
        graph = asking().compile(checkpointer=ThreadlineSaver(client))
        assert "__interrupt__" in await graph.ainvoke({"said": []}, at("asked"))
        assert (await graph.ainvoke(Command(resume="yes"), at("asked")))["said"] == ["hello", "you said yes"]


async def test_a_synchronous_client_serves_both(client: Threadline) -> None:
    graph = asking().compile(checkpointer=ThreadlineSaver(client))
    assert "__interrupt__" in await graph.ainvoke({"said": []}, at("asked"))
    assert graph.invoke(Command(resume="yes"), at("asked"))["said"] == ["hello", "you said yes"]


def travelled(saver: Any) -> List[Any]:
    """What a graph shows whose past is read, changed and continued."""
    graph = asking().compile(checkpointer=saver)
    results: List[Any] = [graph.invoke({"said": []}, at("past")), graph.invoke(Command(resume="yes"), at("past"))]
    history = list(graph.get_state_history(at("past")))
    greeted = history[1].config
    changed = graph.update_state(greeted, {"said": ["by hand"]}, as_node="greet")
    results += [graph.invoke(None, changed), graph.invoke(Command(resume="no"), at("past"))]
    results += [graph.invoke(None, history[2].config), graph.get_state(greeted).values]
    results += [graph.get_state(history[0].config).values, graph.get_state(at("past")).next]
    for state in graph.get_state_history(at("past")):
        results.append((state.values, state.next, state.metadata, len(state.tasks), state.parent_config is None))
    return [_without_ids(one) for one in results]


def _without_ids(result: Any) -> Any:
    if isinstance(result, dict) and "__interrupt__" in result:
        return {**result, "__interrupt__": [one.value for one in result["__interrupt__"]]}
    return result


def test_the_past_is_that_of_the_saver_in_memory(client: Threadline) -> None:
    found = travelled(ThreadlineSaver(client))
    assert found == travelled(InMemorySaver())
    assert found[1]["said"] == ["hello", "you said yes"]


def test_a_subgraph_has_a_namespace_of_its_own(client: Threadline) -> None:
    saver = ThreadlineSaver(client)
    outer = StateGraph(State).add_node("inner", asking().compile()).add_edge(START, "inner").compile(checkpointer=saver)
    outer.invoke({"said": []}, at("nested"))
    spaces = {one.config["configurable"]["checkpoint_ns"] for one in saver.list(at("nested"))}
    assert "" in spaces and len(spaces) == 2
    state: Any = outer.get_state(at("nested"), subgraphs=True)
    assert state.tasks[0].state.values["said"] == ["hello"]
    assert outer.invoke(Command(resume="yes"), at("nested"))["said"][-1] == "you said yes"


def test_what_parallel_steps_have_done_is_not_repeated(client: Threadline) -> None:
    """Of two parallel steps one fails. The writes of the other one are kept, so it runs once."""
    runs: List[str] = []

    def good(state: State) -> Dict[str, Any]:
        runs.append("good")
        return {"said": ["good"]}

    def bad(state: State) -> Dict[str, Any]:
        runs.append("bad")
        if runs.count("bad") == 1:
            raise RuntimeError("the first time fails")
        return {"said": ["bad"]}

    graph = StateGraph(State).add_node("good", good).add_node("bad", bad).add_edge(START, "good").add_edge(START, "bad")
    compiled = graph.compile(checkpointer=ThreadlineSaver(client))
    with pytest.raises(RuntimeError, match="the first time"):
        compiled.invoke({"said": []}, at("parallel"))
    assert sorted(compiled.invoke(None, at("parallel"))["said"]) == ["bad", "good"]
    assert sorted(runs) == ["bad", "bad", "good"]


def test_lost_connections_change_nothing(server: Server, proxy: Proxy, user: str) -> None:
    def count(state: State) -> Dict[str, Any]:
        return {"said": [str(len(state["said"]))]}

    def more(state: State) -> str:
        return "count" if len(state["said"]) < 20 else END

    builder = StateGraph(State).add_node("count", count).add_edge(START, "count").add_conditional_edges("count", more)
    over = threading.Event()

    def cut() -> None:
        while not over.wait(0.03):
            proxy.cut()

    cutting = threading.Thread(target=cut)
    cutting.start()
    with Threadline(proxy.url, api_key=KEY, user=user) as client:
        saver = ThreadlineSaver(client)
        graph = builder.compile(checkpointer=saver)
        try:
            said = graph.invoke({"said": []}, at("cut"), durability="sync")["said"]
        finally:
            over.set()
            cutting.join()
        assert said == [str(number) for number in range(20)] and len(proxy.requests) > 50
        history = [state.values.get("said") for state in graph.get_state_history(at("cut"))]
        assert history == [*(said[:number] for number in range(20, -1, -1)), []]
        assert all(len(one.pending_writes or []) <= 3 for one in saver.list(at("cut")))


def test_nodes_have_the_store(client: Threadline) -> None:
    def remember(state: State, *, store: BaseStore) -> Dict[str, Any]:
        store.put(("memories",), "said", {"count": len(state["said"])})
        return {"said": [str(item.value) for item in store.search(("memories",))]}

    graph = StateGraph(State).add_node("remember", remember).add_edge(START, "remember")
    compiled = graph.compile(checkpointer=ThreadlineSaver(client), store=ThreadlineStore(client))
    assert compiled.invoke({"said": ["x"]}, at("store"))["said"] == ["x", "{'count': 1}"]


class Naive(ThreadlineSaver):
    """Keeps the newest checkpoint alone."""

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for thread_id in thread_ids:
            _, *older = self.list({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
            ids = [one.checkpoint["id"] for one in older]
            self._calls.synchronous._of(thread_id).delete(ns="", ids=ids)


def changes(frequency: int) -> Any:
    """A graph whose state is stored as changes, and as a whole after so many."""
    from langgraph.channels.delta import DeltaChannel

    def append(state: List[str], writes: Sequence[List[str]]) -> List[str]:
        return [*(state or []), *(one for write in writes for one in write)]

    changing: Any = Annotated[List[str], DeltaChannel(append, snapshot_frequency=frequency)]
    Growing: Any = TypedDict("Growing", {"said": changing, "other": str})

    def speak(state: Any) -> Dict[str, Any]:
        return {"said": [f"word {len(state['said'])}"], "other": "x"}

    return StateGraph(Growing).add_node("speak", speak).add_edge(START, "speak").add_edge("speak", END)


def has_changes() -> bool:
    """False for versions of LangGraph that store whole values alone."""
    return hasattr(BaseCheckpointSaver, "get_delta_channel_history")


@pytest.mark.parametrize(("kind", "kept"), [(ThreadlineSaver, True), (Naive, False)])
def test_a_pruned_state_of_changes_has_its_value(client: Threadline, kind: Any, kept: bool) -> None:
    if not has_changes():
        return
    saver = kind(client)
    graph = changes(frequency=5).compile(checkpointer=saver)
    for turn in range(8):
        graph.invoke({"said": [f"turn {turn}"]}, at("pruned"))
    whole = graph.get_state(at("pruned")).values["said"]
    assert whole == [word for turn in range(8) for word in (f"turn {turn}", f"word {turn * 2 + 1}")]
    stored = len(list(saver.list(at("pruned"))))
    saver.prune([at("pruned")["configurable"]["thread_id"]])
    assert 1 <= len(list(saver.list(at("pruned")))) < stored / 2
    assert (graph.get_state(at("pruned")).values.get("said") == whole) is kept


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_changes_are_those_of_the_saver_in_memory(client: Threadline, durability: Any) -> None:
    if not has_changes():
        return
    results: List[Any] = []
    for saver in (ThreadlineSaver(client), InMemorySaver()):
        graph = changes(frequency=3).compile(checkpointer=saver)
        for turn in range(5):
            graph.invoke({"said": [f"turn {turn}"]}, at("changes"), durability=durability)
        results.append([state.values for state in graph.get_state_history(at("changes"))])
    assert results[0] == results[1] and len(results[0][0]["said"]) == 10


def test_a_pruned_state_without_changes_is_one_checkpoint(client: Threadline) -> None:
    saver = ThreadlineSaver(client)
    graph = asking().compile(checkpointer=saver)
    plain = at("plain")["configurable"]["thread_id"]
    graph.invoke({"said": []}, at("plain"))
    graph.invoke(Command(resume="yes"), at("plain"))
    saver.prune([plain])
    assert len(list(saver.list(at("plain")))) == 1
    assert graph.get_state(at("plain")).values["said"] == ["hello", "you said yes"]
    saver.prune([plain, "unknown"], strategy="delete")
    assert list(saver.list(at("plain"))) == [] and graph.get_state(at("plain")).values == {}


async def test_the_history_of_changes_is_that_of_the_base_class(client: Threadline, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_changes():
        return
    monkeypatch.setattr("threadline._sync.saving.CHECKPOINT_PAGE", 2)
    saver = ThreadlineSaver(client)
    graph = changes(frequency=4).compile(checkpointer=saver)
    for turn in range(6):
        graph.invoke({"said": [f"turn {turn}"]}, at("history"))
    branch = list(graph.get_state_history(at("history")))[4].config
    graph.invoke({"said": ["another branch"]}, branch)
    seeds = 0
    for found in saver.list(at("history")):
        one: Any = {"config": found.config, "channels": ["said", "unknown"]}
        history = saver.get_delta_channel_history(**one)
        assert history == BaseCheckpointSaver.get_delta_channel_history(saver, **one)
        assert history == await saver.aget_delta_channel_history(**one)
        seeds += "seed" in history["said"]
    assert seeds > 3 and saver.get_delta_channel_history(config=at("history"), channels=[]) == {}


def example(server: Server, thread_id: str, seconds: float = 0.2) -> subprocess.Popen[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(SOURCES),
        "THREADLINE_URL": server.url,
        "THREADLINE_API_KEY": server.api_key or "",
        "STEP_SECONDS": str(seconds),
    }
    # Python 3.14 warns of a package that LangGraph needs.
    langsmith = "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning:langsmith._internal._beta_decorator"
    command = [sys.executable, "-W", "error", "-W", langsmith, str(EXAMPLE), thread_id]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_the_example_survives_kills_of_itself_and_of_the_server(own_server: Server) -> None:
    first = example(own_server, "parcels")
    assert first.stdout is not None
    said: List[str] = []
    for line in first.stdout:
        said.append(line.strip())
        if line.startswith("looking for a lamp"):
            break
    first.send_signal(signal.SIGKILL)
    first.wait()
    first.stdout.close()
    assert said == ["begins", "looking for a book", "looking for a kettle", "looking for a lamp"]
    own_server.restart()
    second, _ = example(own_server, "parcels", 0).communicate(timeout=20)
    answer = "Found a book, a kettle, a lamp, a map, a plant. Questions so far: {}."
    looked = [f"looking for {parcel}" for parcel in ("a lamp", "a map", "a plant")]
    assert second.splitlines() == ["goes on", *looked, answer.format(1)]
    for number, thread_id in ((2, "parcels"), (3, "other-parcels")):
        later, _ = example(own_server, thread_id, 0).communicate(timeout=20)
        assert later.splitlines()[0] == "begins" and later.splitlines()[-1] == answer.format(number)
