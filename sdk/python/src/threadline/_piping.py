"""Mappers from the items of a stream to AG-UI events."""

from __future__ import annotations

from typing import List, Optional, Protocol

from ._errors import ConfigError
from ._json import JsonObject, plain


class StreamFailed(Exception):
    """A stream that a run was to append has reported an error."""


class Mapper(Protocol):
    """Turns the items of one stream into events. Beginnings and ends of runs are the producer's, and never among these."""

    interrupts: List[JsonObject]
    """Questions of the stream: they end the run after the stream."""

    def feed(self, item: object) -> List[JsonObject]: ...

    def end(self) -> List[JsonObject]: ...


class _AgUi:
    """A stream of AG-UI events."""

    def __init__(self) -> None:
        self.interrupts: List[JsonObject] = []

    def feed(self, item: object) -> List[JsonObject]:
        event = plain(item)
        type_ = event.get("type")
        if type_ == "RUN_ERROR":
            raise StreamFailed(str(event.get("message") or "the stream has failed"))
        if type_ == "RUN_FINISHED":
            outcome = event.get("outcome")
            if isinstance(outcome, dict) and outcome.get("type") == "interrupt":
                self.interrupts += outcome.get("interrupts") or []
        return [] if type_ in ("RUN_STARTED", "RUN_FINISHED") else [event]

    def end(self) -> List[JsonObject]:
        return []


def mapper_for(first: object) -> Optional[Mapper]:
    """The mapper of a stream with this first item; None if it is of an unknown kind."""
    try:
        type_ = plain(first).get("type")
    except ConfigError:
        return None
    return _AgUi() if isinstance(type_, str) and type_.isupper() else None
