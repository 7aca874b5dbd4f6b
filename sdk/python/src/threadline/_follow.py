"""A reader's cursor moving over a thread's frames: which events to deliver, which to skip, and when a stream is inconsistent.

Pure, and kept across connections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Tuple

from ._errors import ConnectionFailed, ProtocolError, ThreadlineError, problem_error
from ._items import Batch, CaughtUp, Cursor, Ended, Events, FellBehind, Hello, Item, Queue, Rebased
from ._json import JsonObject

FINAL = ("log-replaced", "log-damaged")
"""Reasons of an end that are errors."""
DONE = ("run-ended", "thread-deleted")
"""Reasons of an end that is none."""


@dataclass(frozen=True)
class Frame:
    """A frame that a transport has received, in the form of the socket's frames (proto/socket.md)."""

    name: str
    body: Mapping[str, Any]
    batches: Tuple[Batch, ...] = ()


@dataclass(frozen=True)
class Taken:
    """The result of a frame."""

    items: Tuple[Item, ...] = ()
    progress: bool = False
    """True if the frame made progress, which resets the count of failures."""
    done: bool = False
    """True if nothing more will come."""
    error: Optional[ThreadlineError] = None
    """A final refusal if it is not retryable; otherwise a new connection is required."""


NOTHING = Taken()


def batches_of(logged: List[JsonObject]) -> Tuple[Batch, ...]:
    """Groups single events that were committed together."""
    batches: List[Batch] = []
    for one in logged:
        last = batches[-1] if batches else None
        if last and last.run_id == one["runId"] and last.at == one["at"] and last.seq + len(last.events) == one["seq"]:
            last.events.append(one["event"])
        else:
            batches.append(Batch(one["seq"], one["runId"], one["at"], [one["event"]]))
    return tuple(batches)


class Follow:
    """The cursor of one subscription."""

    def __init__(self, cursor: Cursor, run_id: Optional[str] = None) -> None:
        self.at = cursor.after
        self.epoch = cursor.epoch
        self.run_id = run_id
        self._open = False
        # A subscription limited to a run begins where the run does: from there on its events are dense, too.
        self._placed = run_id is None

    def begin(self) -> None:
        """A new connection: frames before its hello are ignored."""
        self._open = False

    def take(self, frame: Frame) -> Taken:
        name, body = frame.name, frame.body
        if name == "error":
            status = body.get("status")
            return Taken(error=problem_error(body, status if isinstance(status, int) else 0))
        if name == "hello":
            return self._hello(body)
        if not self._open:
            return NOTHING
        if name == "events":
            return self._events(body, frame.batches)
        if name == "caughtUp":
            return self._reaches(body["seq"]) or Taken((CaughtUp(self.at),))
        if name == "fellBehind":
            return Taken((FellBehind(self.at),))
        if name == "rebased":
            return self._rebased(body)
        if name == "queue":
            queue = Queue(body["epoch"], body["version"], body["queued"], body.get("held"))
            return Taken((queue,)) if queue.epoch == self.epoch else NOTHING
        return self._ended(body) if name == "ended" else NOTHING

    def _hello(self, body: Mapping[str, Any]) -> Taken:
        epoch, tail, after = body["epoch"], body["tail"], body.get("after", 0)
        if self.epoch is not None and self.epoch != epoch:
            return Taken(error=ProtocolError(f"the server sent log {epoch} instead of {self.epoch}"))
        self.epoch = epoch
        self._open = True
        if not self._placed:
            self.at = max(self.at, after)
            self._placed = True
        return Taken((Hello(epoch, tail),))

    def _events(self, body: Mapping[str, Any], batches: Tuple[Batch, ...]) -> Taken:
        if body["epoch"] != self.epoch:
            return _out_of_step(f"events of another log ({body['epoch']}) arrived")
        fresh: List[Batch] = []
        error: Optional[ThreadlineError] = None
        for batch in batches:
            seen = self.at + 1 - batch.seq
            if seen < 0:
                error = _out_of_step(f"seq {batch.seq} arrived after seq {self.at}").error
                break
            if seen >= len(batch.events):
                continue
            fresh.append(batch if seen == 0 else Batch(self.at + 1, batch.run_id, batch.at, batch.events[seen:]))
            self.at = batch.seq + len(batch.events) - 1
        return Taken((Events(fresh),) if fresh else (), progress=bool(fresh), error=error)

    def _rebased(self, body: Mapping[str, Any]) -> Taken:
        if body["from"] != self.epoch:
            return _out_of_step("rebased")
        previous, self.epoch = body["from"], body["epoch"]
        return self._reaches(body["after"]) or Taken((Rebased(previous, body["epoch"], self.at),))

    def _ended(self, body: Mapping[str, Any]) -> Taken:
        reason = body["reason"]
        if reason in FINAL:
            facts = {name: value for name, value in body.items() if name != "reason"}
            problem = {**facts, "type": f"/problems/{reason}", "title": reason.replace("-", " ").capitalize()}
            return Taken(error=problem_error(problem, 500 if reason == "log-damaged" else 410))
        if reason not in DONE:
            return NOTHING
        missing = self._reaches(body.get("seq") or 0) if reason == "run-ended" else None
        return missing or Taken((Ended(reason),), done=True)

    def _reaches(self, seq: int) -> Optional[Taken]:
        """Checks the server's statement that everything up to `seq` was sent."""
        return _out_of_step(f"seq {seq} was sent, {self.at} arrived") if seq > self.at else None


def _out_of_step(why: str) -> Taken:
    return Taken(error=ConnectionFailed(f"events are out of step: {why}"))
