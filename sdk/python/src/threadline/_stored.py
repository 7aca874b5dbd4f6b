"""Responses of the server with stored data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, List

from ._json import JsonObject


@dataclass(frozen=True)
class Stored:
    """The messages of the attempts before, and the state and the open interrupts after them. Empty if the run is new."""

    messages: List[JsonObject] = field(default_factory=lambda: [])
    state: Any = field(default_factory=dict)
    interrupts: List[JsonObject] = field(default_factory=lambda: [])


@dataclass(frozen=True)
class Messages:
    """A page of messages, in AG-UI's format, after the event `seq` of the log `epoch`."""

    epoch: str
    seq: int
    messages: List[JsonObject]
    """The messages of the page, oldest first."""
    has_more: bool
    """True if there are older messages; request them with `before`."""
    interrupts: List[JsonObject]
    """The open interrupts."""
    pending_tool_call_ids: List[str]
    """Ids of tool calls without a result."""

    @classmethod
    def of(cls, page: JsonObject) -> Messages:
        return cls(page["epoch"], page["seq"], page["messages"], page["hasMore"], page["interrupts"], page["pendingToolCallIds"])


@dataclass(frozen=True)
class StateAt:
    """The state of a thread after the event `seq`."""

    epoch: str
    seq: int
    state: Any

    @classmethod
    def of(cls, answer: JsonObject) -> StateAt:
        return cls(answer["epoch"], answer["seq"], answer["state"])


@dataclass(frozen=True)
class LoggedEvent:
    """An event with its position in the log."""

    seq: int
    run_id: str
    at: str
    """Time of the commit."""
    event: JsonObject
    """The event, as it was appended."""


@dataclass(frozen=True)
class EventPage:
    """A page of events, oldest first."""

    epoch: str
    """Epoch of the log that the events belong to."""
    tail: int
    """Seq of the newest event of the log; 0 if it has none."""
    next_cursor: str
    """The cursor of the next page in the same direction."""
    has_more: bool
    events: List[LoggedEvent]

    @classmethod
    def of(cls, page: JsonObject) -> EventPage:
        events = [LoggedEvent(one["seq"], one["runId"], one["at"], one["event"]) for one in page["events"]]
        return cls(page["epoch"], page["tail"], page["nextCursor"], page["hasMore"], events)
