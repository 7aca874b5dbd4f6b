"""Reading of the members of events, and of messages that arrive complete."""

from .values import (
    MISSING,
    Malformed,
    Members,
    attempt,
    beyond_doubles,
    is_list,
    is_object,
    json,
    optional_word,
    required,
    word,
)

_TEXT_ROLES = frozenset(("developer", "system", "assistant", "user"))

#: Members that are folded into messages, state and interrupts, of the types that have others than metadata.
_FOLDED = {
    "STATE_SNAPSHOT": ("snapshot",),
    "STATE_DELTA": ("delta",),
    "RUN_FINISHED": ("outcome",),
    "MESSAGES_SNAPSHOT": ("messages", "metadata"),
    "ACTIVITY_SNAPSHOT": ("content", "metadata"),
    "TOOL_CALL_RESULT": ("content", "metadata"),
    "ACTIVITY_DELTA": ("patch", "metadata"),
}
_WITH_METADATA = ("TEXT_", "TOOL_", "REASONING_", "THINKING_")


def unreadable_numbers(kind: str, event: Members) -> int:
    """Number of numbers beyond a double in the members of an event that are folded."""
    folded = _FOLDED.get(kind)
    if folded is not None:
        return sum(beyond_doubles(event[name]) for name in folded if name in event)
    if kind == "RUN_STARTED":
        given = event.get("input")
        return beyond_doubles(given.get("messages")) if is_object(given) else 0
    if "metadata" in event and kind.startswith(_WITH_METADATA):
        return beyond_doubles(event["metadata"])
    return 0


def metadata_of(event: Members) -> Members | None:
    """Metadata of an event, which must be an object if it is present."""
    if "metadata" not in event:
        return None
    read = json(event["metadata"])
    if not is_object(read):
        raise Malformed
    return read


def owner_of(event: Members) -> str | None:
    """The subagent to which an event is attributed; None is the parent agent."""
    return optional_word(event.get("subagentRunId", MISSING))


def text_role(event: Members) -> str | None:
    """The role of a streamed text, if it is a permitted one."""
    role = optional_word(event.get("role", MISSING))
    if role is not None and role not in _TEXT_ROLES:
        raise Malformed
    return role


def parent_of(event: Members) -> str | None:
    """The parent message of a tool call; older producers write ``null`` for none."""
    parent = event.get("parentMessageId")
    return None if parent is None else word(parent)


def merge_metadata(into: Members, metadata: Members | None) -> None:
    """Merges the metadata of an event, key by key; the last write wins."""
    if metadata is None:
        return
    known = into.get("metadata")
    into["metadata"] = {**known, **metadata} if is_object(known) else metadata


def read_messages(value: object) -> list[Members]:
    """Reads complete messages. Messages without an ``id`` or a ``role`` are left out, as are tool calls without an id, a name
    or arguments. ``null`` is treated as absent for optional members, since some producers write it.
    """
    if not is_list(value):
        return []
    read = (attempt(_message, message) for message in value)
    return [message for message in read if message is not None]


def _message(value: object) -> Members:
    if not is_object(value):
        raise Malformed
    rest = {name: member for name, member in value.items() if name not in _MESSAGE_MEMBERS}
    message: Members = {"id": word(value.get("id")), "role": word(value.get("role")), **_members(rest)}
    content, calls, owner = (value.get(name) for name in ("content", "toolCalls", "subagentRunId"))
    if content is not None:
        message["content"] = content if isinstance(content, str) else json(content)
    if owner is not None:
        message["subagentRunId"] = json(owner)
    if calls is not None:
        message["toolCalls"] = _calls(calls) if message["role"] == "assistant" else json(calls)
    return message


_MESSAGE_MEMBERS = frozenset(("id", "role", "content", "toolCalls", "subagentRunId"))


def _calls(value: object) -> list[object]:
    read = (attempt(_call, call) for call in value) if is_list(value) else ()
    return [call for call in read if call is not None]


def _call(value: object) -> Members:
    called = value.get("function") if is_object(value) else None
    if not is_object(value) or not is_object(called):
        raise Malformed
    rest = {name: member for name, member in value.items() if name not in ("id", "function")}
    more = {name: member for name, member in called.items() if name not in ("name", "arguments")}
    function = {**_members(more), "name": word(called.get("name")), "arguments": required(called.get("arguments"))}
    return {**_members(rest), "id": word(value.get("id")), "function": function}


def _members(value: Members) -> Members:
    read = json(value)
    return read if is_object(read) else {}


def read_interrupts(outcome: object) -> list[Members]:
    """The interrupts that the outcome of a run requests; empty for other outcomes."""
    read = json(outcome)
    asked = read.get("interrupts") if is_object(read) and read.get("type") == "interrupt" else None
    return [_interrupt(interrupt) for interrupt in asked if is_object(interrupt)] if is_list(asked) else []


def _interrupt(interrupt: Members) -> Members:
    if "subagentRunId" in interrupt and interrupt["subagentRunId"] is None:
        return {name: member for name, member in interrupt.items() if name != "subagentRunId"}
    return interrupt
