"""Streams of real packages become the same messages, which the server accepts."""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from harness.environments import VERSIONS
from threadline.conversation import Conversation

from .frameworks import streams
from .judge import Judge

LOOK_7 = ("look", {"id": 7})
LOOK_8 = ("look", {"id": 8})
ASKED = [("assistant", "Let me see.", [LOOK_7, LOOK_8])]
THOUGHT_AND_ASKED = [("reasoning", "Hm"), *ASKED]
THERE: tuple[Any, ...] = ("assistant", "They are there.", [])
ANSWERED = [("tool", "at 7"), ("tool", "at 8"), THERE]
ANSWERED_AS_JSON = [("tool", '{"at":7}'), ("tool", '{"at":8}'), THERE]
THOUGHT_TWICE = [("reasoning", "Hm\n\nWell"), *ASKED]

#: Streams that the oldest version does not have.
NEW = ("second version",)
#: Messages that the streams become, by framework and name.
EXPECTED: dict[str, dict[str, list[Any]]] = {
    "langgraph": {
        **dict.fromkeys(("all", "messages", "updates", "values", "whole", "tasks", "subgraph", *NEW), [*ASKED, *ANSWERED]),
        "thinking": [("reasoning", "Hm, well"), ("assistant", "Yes.", [])],
        "interrupted": [],
        "resumed": [("assistant", "Answer: yes", [])],
        "parallel": [("assistant", text, []) for text in ("one by one", "two by two", "three by")],
    },
    "openai": {
        "chat": THOUGHT_AND_ASKED,
        "answer": [THERE],
        "responses": THOUGHT_TWICE,
        "failed": [("assistant", "Let ", [])],
        "agent": [*THOUGHT_TWICE, *ANSWERED],
        "agent over chat": [*THOUGHT_AND_ASKED, *ANSWERED],
        "handoff": [
            ("assistant", "", [("transfer_to_desk", {})]),
            ("tool", '{"assistant": "desk"}'),
            ("assistant", "Here is the desk.", []),
        ],
    },
    "pydantic-ai": {
        "calls": [("reasoning", "Hm, well"), *ASKED, *ANSWERED_AS_JSON],
        "ag-ui": [("reasoning", "Hm, well"), *ASKED, *ANSWERED_AS_JSON],
        "retry": [
            ("assistant", "", [("look", {"id": 1})]),
            ("tool", "There is no parcel 1."),
            ("assistant", "", [("look", {"id": 2})]),
            ("tool", '{"at":2}'),
            ("assistant", "Done", []),
        ],
        "output": [("assistant", "", [("final_result", {"city": "Bern"})]), ("tool", "Final result processed.")],
        "approval": [("assistant", "", [("send", {})])],
        "chunks": [("assistant", "Hello", [])],
    },
}

#: Steps of the streams that have some, in the order of their beginnings.
STEPS = {
    **dict.fromkeys(("all", "messages", "updates", "whole", "tasks", *NEW), ["think", "look", "think"]),
    "subgraph": ["team/think", "team/look", "team/think"],
    "thinking": ["think"],
    "resumed": ["approve"],
    "parallel": ["write"],
    "agent": ["trips"],
    "agent over chat": ["trips"],
    "handoff": ["trips", "desk"],
}

CASES = [
    (framework, version, name)
    for framework in EXPECTED
    for version in VERSIONS
    for name in EXPECTED[framework]
    if version == "newest" or name not in NEW
]


def folded(events: list[dict[str, Any]]) -> Conversation:
    conversation = Conversation()
    conversation.apply(events)
    return conversation


def shown(messages: Sequence[dict[str, Any]]) -> list[Any]:
    """The messages without their ids. Results of calls that are carried out at once come in any order, so they are sorted."""
    grouped = groupby(map(_shown, messages), lambda message: message[0] == "tool")
    return [message for is_tool, group in grouped for message in (sorted(group) if is_tool else group)]


def _shown(message: dict[str, Any]) -> Any:
    role, content = message["role"], message.get("content", "")
    if role != "assistant":
        return role, content
    return role, content, [_called(call["function"]) for call in message.get("toolCalls", [])]


def _called(function: dict[str, str]) -> tuple[str, Any]:
    return function["name"], json.loads(function["arguments"] or "null")


@pytest.mark.parametrize(("framework", "version", "name"), CASES)
def test_a_stream_becomes_messages(judge: Judge, framework: str, version: str, name: str) -> None:
    stream = streams(framework, version)[name]
    events = stream["events"]
    conversation = folded(events)
    assert shown(conversation.messages) == EXPECTED[framework][name]
    steps = [event["stepName"] for event in events if event["type"] == "STEP_STARTED"]
    assert steps == STEPS.get(name, []) or name in ("chunks", "ag-ui")
    if "failure" not in stream:
        assert judge.refusal(events) is None
        assert judge.messages() == conversation.messages


@pytest.mark.parametrize(("framework", "version", "name"), CASES)
def test_a_stream_that_is_cut_anywhere_is_accepted(judge: Judge, framework: str, version: str, name: str) -> None:
    cuts = streams(framework, version)[name]["cuts"]
    # AG-UI events are passed on as they are, so a part that they leave open is ended by the producer.
    if streams(framework, version)[name]["mapper"] == "AgUiEvents":
        return
    for upto, events in enumerate(cuts):
        assert judge.refusal(events) is None, f"after {upto + 1} items"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_state_of_a_graph_is_the_state_of_the_thread(version: str) -> None:
    found = streams("langgraph", version)
    for name in ("all", "values", "whole", "subgraph", *(NEW if version == "newest" else ())):
        assert folded(found[name]["events"]).state == {"parcel": "found", "seen": ["think", "look", "think"]}, name
    assert [event["type"] for event in found["all"]["events"]].count("STATE_SNAPSHOT") == 1
    custom = [event for event in found["all"]["events"] if event["type"] == "CUSTOM"]
    assert custom == [{"type": "CUSTOM", "name": "progress", "value": {"type": "progress", "done": 1}}]


@pytest.mark.parametrize("version", VERSIONS)
def test_questions_are_handed_over(version: str) -> None:
    (asked,) = streams("langgraph", version)["interrupted"]["interrupts"]
    assert asked.pop("id")
    value = {"message": "Send it?", "id": 7}
    assert asked == {"reason": "input_required", "message": "Send it?", "metadata": {"value": value}}
    assert streams("langgraph", version)["resumed"]["interrupts"] == []
    (approval,) = streams("pydantic-ai", version)["approval"]["interrupts"]
    assert approval == {"id": "call-1", "reason": "tool_call", "toolCallId": "call-1"}
    assert folded(streams("pydantic-ai", version)["approval"]["events"]).pending_tool_call_ids == ["call-1"]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_known_is_kept_once_per_type(version: str) -> None:
    events = streams("langgraph", version)["thinking"]["events"]
    unmapped = [event for event in events if event.get("name") == "unmapped"]
    assert unmapped == [{"type": "CUSTOM", "name": "unmapped", "value": {"type": "hologram", "data": "x"}}]
    (searched,) = (event for event in streams("openai", version)["responses"]["events"] if event["type"] == "CUSTOM")
    assert searched["name"] == "web_search_call"
    for framework in EXPECTED:
        for name, stream in streams(framework, version).items():
            if name != "thinking":
                assert all(event.get("name") != "unmapped" for event in stream["events"]), name


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_of_a_stream_is_raised(version: str) -> None:
    assert streams("openai", version)["failed"]["failure"] == "the model is away"
