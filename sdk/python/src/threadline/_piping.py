"""Mappers from the items of a stream to AG-UI events."""

from __future__ import annotations

from typing import List, Optional, Protocol

from ._errors import ConfigError, ThreadlineError
from ._json import JsonObject, plain


class StreamFailed(ThreadlineError):
    """A stream that a run was to append has reported an error."""


class Mapper(Protocol):
    """Turns the items of one stream into events."""

    def feed(self, item: object) -> List[JsonObject]: ...

    def end(self) -> List[JsonObject]: ...


class _AgUi:
    """A stream of AG-UI events."""

    def feed(self, item: object) -> List[JsonObject]:
        event = plain(item)
        if event.get("type") == "RUN_ERROR":
            raise StreamFailed(str(event.get("message") or "the stream has failed"))
        return [event]

    def end(self) -> List[JsonObject]:
        return []


def mapper_for(first: object) -> Optional[Mapper]:
    """The mapper of a stream with this first item; None if it is of an unknown kind."""
    try:
        type_ = plain(first).get("type")
    except ConfigError:
        return None
    return _AgUi() if isinstance(type_, str) and type_.isupper() else None
