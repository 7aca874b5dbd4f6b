"""The examples of docs/langgraph.md, run as they are written."""

from __future__ import annotations

from typing import Any, Dict, List

from harness.documents import examples_of
from harness.server import Server
from langgraph.graph import START, MessagesState, StateGraph
from threadline import Threadline

from .conftest import KEY

CHECKPOINTS, MEMORIES = examples_of("langgraph.md")


def run(example: str, server: Server, user: str, **names: Any) -> Dict[str, Any]:
    """Runs an example on the server of the tests. Returns its names."""
    client = Threadline(server.url, api_key=KEY, user=user)
    code = example.replace('Threadline("http://localhost:7420", user="ann")', "client")
    assert "client" in code and "localhost" not in code
    names.update(client=client)
    try:
        exec(compile(code, "docs/langgraph.md", "exec"), names)
    finally:
        client.close()
    return names


def is_short(example: str) -> bool:
    return len([line for line in example.split("\n") if line]) == 5


class Chat(MessagesState):
    pass


def test_checkpoints(server: Server, user: str) -> None:
    assert is_short(CHECKPOINTS)
    builder = StateGraph(Chat).add_node("answer", lambda state: {"messages": [("ai", f"Hello {len(state['messages'])}")]})
    builder.add_edge(START, "answer")
    said: List[Any] = []
    for _ in range(2):
        run(CHECKPOINTS, server, user, builder=builder, print=said.append)
    assert [message.content for message in said[-1]["messages"]] == ["Hi", "Hello 1", "Hi", "Hello 3"]


def test_memories(server: Server, user: str) -> None:
    assert is_short(MEMORIES)
    said: List[Any] = []
    run(MEMORIES, server, user, print=said.extend)
    (item,) = said
    assert item.value == {"text": "Ann likes green tea", "stars": 5} and item.score == 0.5
