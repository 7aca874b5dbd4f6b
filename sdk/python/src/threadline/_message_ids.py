"""Ids of the messages of one run whose chunks have none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional

from ._json import JsonObject

_OF_THE_RUN = ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "MESSAGES_SNAPSHOT")
"""Events of the whole run, which end all open messages."""
_ROLES = ("developer", "system", "assistant", "user")
"""Roles that a streamed text may have."""


@dataclass(frozen=True)
class _Open:
    """A message that is built by chunks."""

    id: str
    role: str
    name: Optional[str]


class MessageIds:
    """Assigns ids that are derived from the run's id and the event's number: a producer that repeats its events repeats them.

    With `explicit`, a chunk that continues a message gets its id, too: it may be appended among others.
    """

    def __init__(self, run_id: str, *, explicit: bool = False) -> None:
        self._run_id = run_id
        self._explicit = explicit
        # Per subagent, or None: the message of the last event, if that was a text chunk. A chunk without an id continues it.
        self._open: Dict[Optional[str], _Open] = {}

    def given(self, event: JsonObject, producer_seq: int) -> JsonObject:
        """The event as it is appended under this producerSeq."""
        type_ = event["type"]
        if not self._open and type_ != "TEXT_MESSAGE_CHUNK":
            return event
        if type_ in _OF_THE_RUN:
            self._open.clear()
        lane = event.get("subagentRunId")
        if not isinstance(lane, str):
            lane = None
        if type_ != "TEXT_MESSAGE_CHUNK":
            self._open.pop(lane, None)
            return event
        return self._chunk(event, lane, producer_seq)

    def _chunk(self, event: JsonObject, lane: Optional[str], producer_seq: int) -> JsonObject:
        role, name, message_id = event.get("role"), event.get("name"), event.get("messageId")
        # A malformed chunk opens nothing, since readers ignore it.
        if not (role is None or role in _ROLES) or not (name is None or isinstance(name, str)):
            return event
        if message_id is not None:
            if isinstance(message_id, str) and all(one.id != message_id for one in self._open.values()):
                self._begin(lane, message_id, role, name)
            return event
        now = self._open.get(lane)
        # A chunk that continues a message may only repeat the members of the first chunk.
        if now and (role or now.role) == now.role and (name if name is not None else now.name) == now.name:
            return {**event, "messageId": now.id} if self._explicit or "messageId" in event else event
        identifier = f"{self._run_id}-{producer_seq}"
        self._begin(lane, identifier, role, name)
        return {**event, "messageId": identifier}

    def _begin(self, lane: Optional[str], identifier: str, role: Any, name: Any) -> None:
        self._open[lane] = _Open(identifier, role or "assistant", name)
