"""The examples of docs/langgraph.md, run as they are written."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List

from harness.documents import examples_of
from harness.server import Server
from harness.until import wait_until
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from threadline import Threadline, user
from threadline.langgraph import ThreadlineSaver

from .conftest import KEY
from .serving import Serving

CHECKPOINTS, STREAMING, AGENT, ANSWER, MEMORIES, MIGRATION = examples_of("langgraph.md")


# Names of parameters in these tests.
as_user = user


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


def greeting() -> Any:
    builder = StateGraph(Chat).add_node("answer", lambda state: {"messages": [("ai", f"Hello {len(state['messages'])}")]})
    return builder.add_edge(START, "answer")


def test_checkpoints(server: Server, user: str) -> None:
    assert is_short(CHECKPOINTS)
    builder = greeting()
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


def test_streaming_to_users(server: Server, user: str) -> None:
    example = STREAMING.replace("chat-7", f"{user}-streamed")
    names = run(example, server, user, builder=greeting())
    assert names["run"].record.status == "finished"
    with Threadline(server.url, api_key=KEY, user=user) as client:
        shown = client.thread(f"{user}-streamed").messages().messages
        assert [one["content"] for one in shown] == ["Where is my parcel?", "Hello 1"]
        checkpoints = client.thread(f"{user}-streamed").checkpoints.list().checkpoints
        assert {one.metadata["run_id"] for one in checkpoints} == {"job-1"}


def test_human_in_the_loop(user: str) -> None:
    """The agent is called by a real server, and answered by a client that knows nothing of the graph."""
    names: Dict[str, Any] = {"user": as_user}
    exec(compile(AGENT, "docs/langgraph.md", "exec"), names)
    said: List[str] = []
    with Serving(names["parcels"]) as url:
        server = Server(args=["--agent", f"parcels={url}"])
        try:
            with Threadline(server.url) as client:
                builder = StateGraph(Chat).add_node("send", names["send"]).add_edge(START, "send")
                names["graph"] = builder.compile(checkpointer=ThreadlineSaver(client))
                thread = client.thread(client.threads.create(f"{user}-asked").thread_id)
                thread.start("parcels", messages=[as_user("Send it")])
                wait_until(lambda: bool(thread.interrupts()))
                exec(compile(ANSWER, "docs/langgraph.md", "exec"), {"thread": thread, "print": said.append})
                wait_until(lambda: thread.messages().messages[-1].get("content") == "It is on its way.")
                wait_until(lambda: thread.interrupts() == [])
                assert len(thread.messages().messages) == 2
        finally:
            server.end()
    assert said == ["Send the parcel?"]


def test_migration(server: Server, user: str) -> None:
    old = InMemorySaver()
    said: List[str] = []
    config: Any = {"configurable": {"thread_id": f"{user}-moved"}}
    greeting().compile(checkpointer=old).invoke({"messages": [("user", "Hi")]}, config)

    class Sqlite:
        @staticmethod
        @contextmanager
        def from_conn_string(path: str) -> Iterator[InMemorySaver]:
            yield old

    with Threadline(server.url, api_key=KEY) as client:
        names = {"SqliteSaver": Sqlite, "client": client, "print": said.append}
        exec(compile(MIGRATION.replace('"ann"', repr(user)), "docs/langgraph.md", "exec"), names)
        assert said == ["3 checkpoints copied"] and client.thread(f"{user}-moved").get().user_id == user
        state = greeting().compile(checkpointer=ThreadlineSaver(client)).invoke({"messages": [("user", "And?")]}, config)
        assert [one.content for one in state["messages"]] == ["Hi", "Hello 1", "And?", "Hello 3"]
