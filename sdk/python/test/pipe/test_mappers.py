"""Mappers by hand-written items: what real packages do seldom, or will do in later versions."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from threadline.pipe import Mapper, StreamFailed, mapper_for
from threadline.pipe.diff import diff

from .judge import Judge


def mapped(*items: object) -> list[dict[str, Any]]:
    mapper = known(items[0])
    return [event for item in items for event in mapper.feed(item)] + mapper.end()


def known(item: object) -> Mapper:
    mapper = mapper_for(item)
    assert mapper is not None
    return mapper


def chunk(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def piece(args: str, **call: Any) -> dict[str, Any]:
    name = {"name": call.pop("name")} if "name" in call else {}
    return chunk(tool_calls=[{**call, "function": {**name, "arguments": args}}])


def calls(*items: object) -> dict[str, str]:
    """Arguments of the calls of a stream, by the names of the tools."""
    events = mapped(*items)
    names = {event["toolCallId"]: event["toolCallName"] for event in events if event["type"] == "TOOL_CALL_START"}
    args = dict.fromkeys(names, "")
    for event in events:
        if event["type"] == "TOOL_CALL_ARGS":
            args[event["toolCallId"]] += event["delta"]
    return {names[call_id]: said for call_id, said in args.items()}


@pytest.mark.parametrize(
    "item",
    [None, 7, "text", b"bytes", [], (), {}, {"type": "start"}, {"type": "HELLO"}, ("a", "b"), object(), {"a": {}}],
)
def test_other_streams_are_not_known(item: object) -> None:
    assert mapper_for(item) is None


def test_calls_of_endpoints_without_indices_are_told_apart_by_their_ids() -> None:
    assert calls(piece('{"a":', id="1", name="f"), piece(" 1}"), piece('{"b":', id="2", name="g"), piece(" 2}")) == {
        "f": '{"a": 1}',
        "g": '{"b": 2}',
    }
    # One index for all calls, and ids that change from piece to piece.
    one_index = [piece("1", index=0, id="1", name="f"), piece("2", index=0, id="2", name="g"), piece("3", index=0, id="9")]
    assert calls(*one_index) == {"f": "1", "g": "23"}


def test_an_endpoint_may_answer_with_an_error() -> None:
    error = {"error": {"message": "no such model", "code": 404}}
    with pytest.raises(StreamFailed, match="no such model"):
        known(error).feed(error)
    mapper = known(chunk(content="Hi"))
    mapper.feed(chunk(content="Hi"))
    with pytest.raises(StreamFailed, match="failed"):
        mapper.feed({"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]})


def test_an_exception_of_a_stream_is_the_cause() -> None:
    failure = ValueError("away")
    with pytest.raises(StreamFailed, match="away") as raised:
        known({"type": "response.created"}).feed({"type": "error", "error": failure})
    assert raised.value.__cause__ is failure


def test_items_of_later_versions_are_kept_once_per_type() -> None:
    mapper = known({"type": "response.created"})
    events = [mapper.feed({"type": kind, "at": at}) for at, kind in enumerate(("response.new", "response.new", "x.y"))]
    assert [[event["value"]["at"] for event in each] for each in events] == [[0], [], [2]]
    # A known type of another shape.
    graph = known(("updates", {}))
    assert graph.feed(("messages", 7))[0]["name"] == "unmapped"
    pydantic = known({"event_kind": "part_start", "index": 0, "part": {"part_kind": "text", "content": "a"}})
    assert pydantic.feed({"event_kind": "part_delta", "index": 5, "delta": {}})[0]["name"] == "unmapped"


@dataclass
class Knot:
    name: str
    ends: list["Knot"] = field(default_factory=list)


def test_objects_that_refer_to_one_another_are_cut() -> None:
    knot = Knot("knot")
    knot.ends += [knot, knot, knot]
    mapper = known(("custom", {}))
    (event,) = mapper.feed(("custom", knot))
    assert event["value"]["name"] == "knot" and "<Knot>" in json.dumps(event)
    (large,) = mapper.feed(("custom", {"type": "big", "text": "x" * 1_100_000}))
    assert large["value"] == {"type": "big", "truncated": True}
    (odd,) = mapper.feed(("custom", {"nan": float("nan"), "bytes": b"\xff", "set": {1}, 7: object}))
    assert odd["value"] == {"nan": None, "bytes": "/w==", "set": [1], "7": "<type>"}


def test_names_of_the_server_are_not_taken() -> None:
    (event,) = known(("custom", {})).feed(("custom", {"type": "threadline.attempt"}))
    assert event["name"] == "custom"
    agui = known({"type": "CUSTOM"})
    assert agui.feed({"type": "CUSTOM", "name": "threadline.attempt", "value": 1})[0]["name"] == "unmapped"


def test_events_of_ag_ui_are_passed_on_without_those_of_the_run() -> None:
    mapper = known({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})
    assert mapper.feed({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}) == []
    delta = {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": None}]}
    assert mapper.feed(delta) == [delta]
    outcome = {"type": "interrupt", "interrupts": [{"id": "i", "reason": "input_required"}]}
    assert mapper.feed({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome}) == []
    assert mapper.interrupts == outcome["interrupts"]
    with pytest.raises(StreamFailed, match="no"):
        mapper.feed({"type": "RUN_ERROR", "message": "no"})


def test_chunks_without_ids_get_one_per_message() -> None:
    mapper = known({"type": "TEXT_MESSAGE_CHUNK"})

    def named(**members: Any) -> Any:
        return mapper.feed({"type": "TEXT_MESSAGE_CHUNK", "delta": "x", **members})[0]["messageId"]

    first = named()
    assert named() == first
    assert named(subagentRunId="s") not in (first, named())
    mapper.feed({"type": "STEP_STARTED", "stepName": "s"})
    second = named()
    assert second != first and named(role="assistant") == second and named(role="user") != second
    assert named(messageId="m") == "m" and named() == "m"


@dataclass
class Message:
    """A message of LangChain's, by its shape."""

    content: Any
    id: str | None = None
    type: str = "AIMessageChunk"
    tool_call_chunks: list[dict[str, Any]] = field(default_factory=list)
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    additional_kwargs: dict[str, Any] = field(default_factory=dict)


def streamed(message: Message, node: str = "n", task: str = "1") -> tuple[str, Any]:
    return "messages", (message, {"langgraph_node": node, "langgraph_step": 1, "langgraph_checkpoint_ns": f"{node}:{task}"})


def texts(events: list[dict[str, Any]]) -> dict[str, str]:
    said: dict[str, str] = {}
    for event in events:
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            said[event["messageId"]] = said.get(event["messageId"], "") + event["delta"]
    return said


def test_chunks_of_one_message_may_have_two_ids_and_chunks_of_two_tasks_alternate() -> None:
    events = mapped(
        streamed(Message("a", "lc_run--1")),
        streamed(Message("x", "lc_run--2"), task="2"),
        streamed(Message("b", "msg_1")),
        streamed(Message("y", "lc_run--2"), task="2"),
        streamed(Message("c", "lc_run--1")),
        ("updates", {"n": {"messages": [Message("abc", "msg_1", "ai")]}}),
        ("updates", {"n": {"messages": [Message("xy", "lc_run--2", "ai")]}}),
    )
    assert texts(events) == {"lc_run--1": "abc", "lc_run--2": "xy"}


def test_history_that_a_node_returns_is_not_said_again() -> None:
    asked, old = Message("Hi", "q2", "human"), Message("old", "old", "ai")
    update = {"messages": [Message("Hello", "q1", "human"), old, asked, Message("new", "new", "ai")]}
    assert texts(mapped(("updates", {"n": update}))) == {"new": "new"}
    values = [("values", {"messages": [asked, old]}), ("values", {"messages": [asked, old, Message("new", "new", "ai")]})]
    assert texts(mapped(*values)) == {"new": "new"}


def test_pieces_of_calls_of_one_index_are_told_apart_by_their_ids() -> None:
    def called(**chunk: Any) -> Any:
        return streamed(Message("", "m", tool_call_chunks=[{"name": None, "args": None, "id": None, "index": 0, **chunk}]))

    assert calls(called(id="1", name="f", args="{"), called(args="}"), called(id="2", name="g", args="[]"), called(args=" ")) == {
        "f": "{}",
        "g": "[] ",
    }


def test_a_state_without_members_does_not_clear_that_of_the_thread() -> None:
    assert mapped(("values", {"messages": []}), ("values", {"messages": [], "a": 1}), ("values", {"messages": []})) == [
        {"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}},
        {"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/a"}]},
    ]


@pytest.mark.parametrize(
    ("old", "new", "operations"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a/b": {"~": 1}}, {"a/b": {}}, [{"op": "remove", "path": "/a~1b/~0"}]),
        ({"a": [1]}, {"a": [1, 2, 3]}, [{"op": "add", "path": "/a/-", "value": n} for n in (2, 3)]),
        ({"a": [1, 2]}, {"a": [2]}, [{"op": "replace", "path": "/a", "value": [2]}]),
        ({"a": 1}, {"b": None}, [{"op": "remove", "path": "/a"}, {"op": "add", "path": "/b", "value": None}]),
    ],
)
def test_a_state_changes_by_the_operations_of_a_patch(old: Any, new: Any, operations: Any) -> None:
    assert diff(old, new) == operations


def test_the_server_accepts_what_is_kept(judge: Judge) -> None:
    events = mapped(("custom", {"type": "a", "deep": {"b": [None, 1.5]}}), ("custom", 7), ("custom", None), ("nope", 1))
    assert judge.refusal(events) is None
    assert [event["name"] for event in events] == ["a", "custom", "custom", "unmapped"]


def test_a_wide_state_is_passed_on_whole() -> None:
    snapshot = {"todos": [{"id": number} for number in range(20_000)]}
    assert mapped({"type": "STATE_SNAPSHOT", "snapshot": snapshot}) == [{"type": "STATE_SNAPSHOT", "snapshot": snapshot}]


def test_a_value_without_an_end_is_not_mapped_in_part() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    events = mapped({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a"}, {"type": "STATE_SNAPSHOT", "snapshot": endless})
    assert [event["type"] for event in events] == ["TEXT_MESSAGE_CHUNK", "CUSTOM"]
    assert events[1]["name"] == "unmapped"
