"""Items of a followed thread, and the position of its reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Union

from ._errors import ConfigError, ProblemError, ThreadlineError
from ._json import JsonObject


@dataclass(frozen=True)
class Cursor:
    """A position in the log of a thread: a reader that starts from it receives what follows. Store both members."""

    after: int = 0
    """Seq of the last event that was seen; 0 for all events."""
    epoch: Optional[str] = None
    """The log that the position belongs to. Required above 0."""


def starting_at(cursor: Optional[Cursor]) -> Cursor:
    """The cursor of a reader, by default before all events; raises `ConfigError` if it names no position."""
    cursor = cursor or Cursor()
    if cursor.after < 0 or (cursor.after > 0 and cursor.epoch is None):
        raise ConfigError(f"the cursor {cursor.after} needs its epoch: store both members of a cursor")
    return cursor


@dataclass(frozen=True)
class Batch:
    """Events of one run that were committed together. Event `i` has the seq `seq + i`."""

    seq: int
    run_id: str
    at: str
    """Time of the commit."""
    events: List[JsonObject]


@dataclass(frozen=True)
class Hello:
    """Connected to the log `epoch`, whose newest event is `tail`. Repeated after every reconnect."""

    epoch: str
    tail: int


@dataclass(frozen=True)
class Events:
    """The next events: dense over the whole life of a subscription, without gaps or duplicates."""

    batches: List[Batch]


@dataclass(frozen=True)
class CaughtUp:
    """All events up to `seq` were delivered; the next ones are live."""

    seq: int


@dataclass(frozen=True)
class FellBehind:
    """The subscription was too slow for live events: the next ones are read from the log. No event is lost."""

    seq: int


@dataclass(frozen=True)
class Rebased:
    """The server has lost events, but none that this subscription has delivered. The next events belong to the log `epoch`."""

    previous: str
    epoch: str
    after: int


@dataclass(frozen=True)
class Queue:
    """The queue of the thread has changed, or has turns when the reader has caught up. Not over long-polls, and not for one run."""

    epoch: str
    version: int
    queued: int
    """Number of turns that wait."""
    held: Optional[str]
    """Reason for which the queue rests until it is released; None if it does not."""


@dataclass(frozen=True)
class Reconnecting:
    """The connection was lost; the next attempt follows after `wait` seconds."""

    wait: float
    error: ThreadlineError
    """The error after which the subscription reconnects."""


@dataclass(frozen=True)
class Ended:
    """The last item. `reason` is `run-ended` (the run to which the subscription was limited) or `thread-deleted`."""

    reason: str


Item = Union[Hello, Events, CaughtUp, FellBehind, Rebased, Queue, Reconnecting, Ended]
"""An item that a subscription delivers."""


def common_cursor(error: BaseException) -> Optional[Cursor]:
    """The cursor from which a reader can continue after a `log-replaced` problem.

    Its events up to `after` belong to the present log; discard the later ones. None for other errors, and if no event is
    known to be common to both logs.
    """
    if not isinstance(error, ProblemError) or error.slug != "log-replaced":
        return None
    common, epoch = error.problem.get("commonUpTo"), error.problem.get("epoch")
    return Cursor(common, epoch) if isinstance(common, int) and isinstance(epoch, str) else None
