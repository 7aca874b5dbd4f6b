"""What the comparison with the server (tests/agui) does not show: reads over time, starts in the middle, and the work."""

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from threadline._limits import MAX_DRAFTS, MAX_STATE_BYTES
from threadline.conversation import Conversation
from threadline.conversation.drafts import Drafts
from threadline.conversation.patch import Document, Purse, patch
from threadline.conversation.values import equal, joined, same, size, utf8_bytes
from threadline.conversation.values import json as read

Event = dict[str, Any]


def text(delta: str, message_id: str = "m") -> Event:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta}


def start(message_id: str = "m") -> Event:
    return {"type": "TEXT_MESSAGE_START", "messageId": message_id}


def delta(*operations: Event) -> Event:
    return {"type": "STATE_DELTA", "delta": list(operations)}


def test_what_was_read_does_not_change() -> None:
    conversation = Conversation()
    snapshot = {"a": {"b": [1, 2]}, "c": {"d": {}}}
    events = [
        start(),
        text("Hel"),
        text("lo"),
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}", "metadata": {"n": 1}},
        {"type": "STATE_SNAPSHOT", "snapshot": snapshot},
        delta({"op": "add", "path": "/a/b/0", "value": 0}),
        delta({"op": "copy", "from": "/a", "path": "/c/d/e"}),
        delta({"op": "add", "path": "/a/b/-", "value": 3}, {"op": "remove", "path": "/c"}),
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "p", "content": {"done": []}},
        {"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "p", "patch": [{"op": "add", "path": "/done/-", "value": 1}]},
        {"type": "RUN_FINISHED", "outcome": {"type": "interrupt", "interrupts": [{"id": "i"}]}},
    ]
    given = json.dumps(events)
    seen: list[tuple[Any, str]] = []
    for event in events:
        conversation.apply([event])
        for value in (conversation.messages, conversation.state, conversation.interrupts):
            seen.append((value, json.dumps(value)))
    assert all(json.dumps(value) == was for value, was in seen)
    assert json.dumps(events) == given, "the events are not changed"
    assert conversation.state == {"a": {"b": [0, 1, 2, 3]}}
    assert conversation.messages[0]["content"] == "Hello"


def test_what_has_not_changed_is_the_same_object() -> None:
    conversation = Conversation()
    conversation.apply([start("one"), text("1", "one"), start("two"), {"type": "STATE_SNAPSHOT", "snapshot": {"a": {}, "b": {}}}])
    messages, state = conversation.messages, conversation.state
    assert conversation.messages is messages and conversation.state is state
    conversation.apply([text("2", "two"), delta({"op": "add", "path": "/a/x", "value": 1}), {"type": "CUSTOM", "name": "n"}])
    assert conversation.messages[0] is messages[0] and conversation.messages[1] is not messages[1]
    assert conversation.state["b"] is state["b"] and state == {"a": {}, "b": {}}
    now = conversation.messages
    conversation.apply([{"type": "MESSAGES_SNAPSHOT", "messages": json.loads(json.dumps(now))}])
    assert conversation.messages is now


def test_halves_of_a_character_are_joined_over_deltas_and_reads() -> None:
    conversation = Conversation()
    conversation.apply([start(), text("a\ud83d")])
    assert conversation.messages[0]["content"] == "a\ud83d"
    conversation.apply([text(""), text("\ude00b"), text("\ude00\ud83d"), text("c")])
    assert conversation.messages[0]["content"] == "a😀b\ude00\ud83dc"
    assert joined("\ud83d", "\ude00") == "😀" and joined("\ude00", "\ud83d") == "\ude00\ud83d"


def test_a_page_knows_when_it_needs_older_messages() -> None:
    known = [{"id": "b", "role": "assistant", "content": "B"}]
    conversation = Conversation(messages=known, has_more=True, state=None, interrupts=[{"id": "i"}])
    assert conversation.state is None and conversation.interrupts == [{"id": "i"}]
    conversation.apply([text("!", "b")])
    assert not conversation.is_incomplete
    conversation.prepend([{"id": "a", "role": "user", "content": "A"}])
    assert [message["id"] for message in conversation.messages] == ["a", "b"]
    assert known == [{"id": "b", "role": "assistant", "content": "B"}]
    conversation.apply([text("?", "lost")])
    assert not conversation.is_incomplete, "there are no older ones"
    part = Conversation(messages=known, has_more=True)
    part.apply([text("?", "a")])
    assert part.is_incomplete


def test_events_of_any_form_are_skipped() -> None:
    conversation = Conversation()
    odd: Any = [None, 7, "x", [], {}, {"type": 7}, {"type": "TEXT_MESSAGE_START"}, {"type": "STATE_SNAPSHOT"}]
    conversation.apply([*odd, start(), text("ok")])
    assert [message["content"] for message in conversation.messages] == ["ok"] and conversation.state == {}


def test_numbers_and_truth_values_are_told_apart() -> None:
    assert same(1, 1.0) and same(0.0, -0.0) and same([1, {"a": 2.0}], [1.0, {"a": 2}])
    assert not same(1, True) and not same(0, False) and not same(2**53, 2**53 + 1) and not same("1", 1)
    assert equal(2**53, 2**53 + 1) and not equal(True, 1) and not equal(None, 0) and not equal({"a": 1}, {"a": 1, "b": 1})
    assert read([float("inf"), 10**400, 2**64]) == [None, None, 2**64]
    assert (utf8_bytes("é😀"), utf8_bytes("\ud83d"), size({"é": [1, "a"]})) == (6, 3, 3 + 5 + 3 + 5 + 4)


def test_a_patch_that_fails_undoes_all_that_it_did() -> None:
    before = {"a": {"b": [1, 2, 3]}, "c": 1, "d": {"e": {}}}
    operations: list[Event] = [
        {"op": "add", "path": "/a/b/1", "value": 9},
        {"op": "remove", "path": "/a/b/0"},
        {"op": "move", "from": "/a/b", "path": "/d/e/f"},
        {"op": "copy", "from": "/d", "path": "/c"},
        {"op": "replace", "path": "/c/e/f/0", "value": 8},
        {"op": "add", "path": "", "value": {"x": 1}},
        {"op": "remove", "path": "/x"},
    ]
    drafts, purse = Drafts(), Purse()
    document = Document(json.loads(json.dumps(before)))
    for upto in range(len(operations) + 1):
        known = document.size
        failing = [*operations[:upto], {"op": "test", "path": "/nope", "value": 1}]
        assert patch(document, failing, drafts, purse) is None
        assert document.value == before and document.size == known == size(document.value)
    assert patch(document, operations, drafts, purse) is not None
    assert document.value == {} and document.size == size({}) and purse.skipped == len(operations) + 1


PATHS = ("", "/a", "/b", "/a/a", "/a/b", "/b/0", "/b/1", "/b/-", "/a/b/0", "/a/b/-", "/0", "/b/0/a", "/", "/-")


def test_patches_apply_whole_or_not_at_all() -> None:
    chance, outcomes = random.Random(7), {True: 0, False: 0}
    values: list[Any] = [1, "text", None, [1, 2], {"a": {"b": []}}, [[{}]]]

    def operation() -> Event:
        op = chance.choice(("add", "remove", "replace", "move", "copy", "add", "test"))
        return {"op": op, "from": chance.choice(PATHS), "path": chance.choice(PATHS), "value": chance.choice(values)}

    drafts, purse = Drafts(), Purse()
    for _ in range(5_000):
        document = Document({"a": {"a": 1, "b": [1, 2]}, "b": [chance.choice(values), chance.choice(values)]})
        for _ in range(4):
            before = json.dumps(document.value, sort_keys=True)
            applied = patch(document, [operation() for _ in range(chance.randrange(6))], drafts, purse) is not None
            outcomes[applied] += 1
            assert document.size == size(document.value)
            assert applied or json.dumps(document.value, sort_keys=True) == before
            if chance.random() < 0.2:
                drafts.seal()
    assert json.dumps(values) == '[1, "text", null, [1, 2], {"a": {"b": []}}, [[{}]]]'
    assert min(outcomes.values()) > 3_000


def test_patches_cannot_grow_a_state_or_its_depth_without_bound() -> None:
    conversation = Conversation()
    conversation.apply([{"type": "STATE_SNAPSHOT", "snapshot": {"l": ["x" * 1_000_000]}}])
    double = delta({"op": "copy", "from": "/l", "path": "/m"}, {"op": "move", "from": "/m", "path": "/l/-"})
    conversation.apply([double] * 40)
    assert conversation.skipped_deltas > 30 and size(conversation.state) <= MAX_STATE_BYTES
    deep = Conversation()
    deep.apply([delta({"op": "copy", "from": "", "path": "/a"})] * 1_000)
    assert deep.skipped_deltas == 1_000 - 126


def measured(work: Callable[[int], None], count: int) -> float:
    began = time.process_time()
    work(count)
    return time.process_time() - began


def long_text(count: int) -> None:
    conversation = Conversation()
    conversation.apply([start(), *(text("word ") for _ in range(count))])
    assert len(conversation.messages[0]["content"]) == 5 * count


def long_arguments(count: int) -> None:
    conversation = Conversation()
    piece = {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "12345"}
    conversation.apply([{"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"}, *([piece] * count)])
    assert len(conversation.messages[0]["toolCalls"][0]["function"]["arguments"]) == 5 * count


def wide_state(count: int) -> None:
    conversation = Conversation()
    conversation.apply(delta({"op": "add", "path": f"/k{at}", "value": {"n": at}}) for at in range(count))
    assert len(conversation.state) == count and conversation.skipped_deltas == 0


def many_results(count: int) -> None:
    conversation = Conversation()
    calls = ({"type": "TOOL_CALL_START", "toolCallId": f"c{at}", "toolCallName": "f", "parentMessageId": "p"} for at in range(count))
    conversation.apply(calls)
    results = ({"type": "TOOL_CALL_RESULT", "messageId": f"r{at}", "toolCallId": f"c{at}", "content": "x"} for at in range(count))
    conversation.apply([*results, start()])
    assert not conversation.pending_tool_call_ids and len(conversation.messages) == count + 2


def front_of_a_list(count: int) -> None:
    conversation = Conversation()
    conversation.apply([{"type": "STATE_SNAPSHOT", "snapshot": {"l": [0] * 100_000}}])
    conversation.apply([delta({"op": "add", "path": "/l/0", "value": 1})] * count)
    # The budget ends what would move a hundred thousand elements at every event.
    assert conversation.skipped_deltas > count * 0.6


@pytest.mark.parametrize("work", [long_text, long_arguments, wide_state, many_results, front_of_a_list])
def test_the_work_is_linear_in_the_events(work: Callable[[int], None]) -> None:
    work(1_000)
    small, large = (min(measured(work, count) for _ in range(3)) for count in (2_000, 16_000))
    assert large < 8 * 4 * small + 0.05


def failing_patches(width: int) -> float:
    conversation = Conversation()
    content: dict[str, object] = {"l": [0] * width}
    conversation.apply([{"type": "STATE_SNAPSHOT", "snapshot": content}])
    conversation.apply([{"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "p", "content": content}])
    failing = [{"op": "add", "path": "/l/-", "value": 1}, {"op": "test", "path": "/l/0", "value": 1}]
    events = [delta(*failing), {"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "p", "patch": failing}] * 1_000
    took = measured(lambda _: conversation.apply(events), 0)
    assert conversation.skipped_deltas == 2_000 and conversation.state == conversation.messages[0]["content"] == content
    return took


def test_a_patch_that_fails_costs_what_it_changes() -> None:
    narrow, wide = (min(failing_patches(width) for _ in range(3)) for width in (10, 200_000))
    assert wide < 3 * narrow + 0.05


def test_objects_between_two_reads_are_bounded() -> None:
    drafts = Drafts()
    first: list[object] = [0]
    draft = drafts.of(first)
    assert drafts.of(draft) is draft is not first
    for _ in range(MAX_DRAFTS):
        drafts.of(dict[str, object](a=1))
    assert drafts.of(draft) is not draft
