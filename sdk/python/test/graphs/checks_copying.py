"""Checkpoints that are copied from another checkpointer."""

from __future__ import annotations

from typing import Any, List

from harness.server import Server
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from threadline import Threadline
from threadline.langgraph import ThreadlineSaver, copy_checkpoints

from .checks_graphs import asking, changes, has_changes
from .conftest import KEY


def everything(saver: Any, thread_id: str) -> List[Any]:
    """All that a checkpointer tells of a thread. Checkpointers differ in where they put writes to internal channels."""
    found = saver.list({"configurable": {"thread_id": thread_id}})
    return [
        (one.config, one.checkpoint, one.metadata, one.parent_config, sorted(map(repr, one.pending_writes or [])))
        for one in sorted(found, key=lambda one: (one.config["configurable"]["checkpoint_ns"], one.checkpoint["id"]))
    ]


def at(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def test_a_graph_goes_on_where_the_other_checkpointer_has_it(server: Server, user: str) -> None:
    old, threads = InMemorySaver(), [f"{user}-1", f"{user}-2"]
    graph = asking().compile(checkpointer=old)
    for thread_id in threads:
        graph.invoke({"said": []}, at(thread_id))
    graph.invoke(Command(resume="yes"), at(threads[0]))
    with Threadline(server.url, api_key=KEY) as client:
        saver = ThreadlineSaver(client)
        count = sum(len(everything(old, thread_id)) for thread_id in threads)
        for _ in range(2):
            assert copy_checkpoints(old, saver, user_of=lambda thread_id: f"{user}-of-{thread_id[-1]}") == count
        for number, thread_id in enumerate(threads, 1):
            assert everything(saver, thread_id) == everything(old, thread_id)
            assert client.thread(thread_id).get().user_id == f"{user}-of-{number}"
        graph = asking().compile(checkpointer=saver)
        assert graph.get_state(at(threads[0])).values["said"] == ["hello", "you said yes"]
        assert graph.get_state(at(threads[1])).next == ("ask",)
        assert graph.invoke(Command(resume="no"), at(threads[1]))["said"] == ["hello", "you said no"]
        assert graph.invoke({"said": ["again"]}, at(threads[0]))["said"][2] == "again"


def test_one_thread_with_a_state_of_changes(client: Threadline, user: str) -> None:
    if not has_changes():
        return
    old = InMemorySaver()
    graph = changes(frequency=3).compile(checkpointer=old)
    for thread_id in (user, f"{user}-other"):
        for turn in range(4):
            graph.invoke({"said": [f"turn {turn}"]}, at(thread_id))
    saver = ThreadlineSaver(client)
    assert copy_checkpoints(old, saver, thread_id=user) == len(list(old.list(at(user))))
    assert [one.values for one in changes(frequency=3).compile(checkpointer=saver).get_state_history(at(user))] == [
        one.values for one in graph.get_state_history(at(user))
    ]
    assert list(saver.list(at(f"{user}-other"))) == []
