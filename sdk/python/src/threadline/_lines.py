"""Lines and events of streams, cut at LF alone.

`str.splitlines` also breaks at U+2028, U+0085 and the like, which texts contain; a chunk may end inside of a character.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from ._errors import ProtocolError


class Lines:
    """Cuts bytes into lines, without their LF."""

    def __init__(self) -> None:
        # The incomplete line, in pieces: a large event arrives in many chunks.
        self._pieces: List[bytes] = []

    def feed(self, chunk: bytes) -> List[bytes]:
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = b"".join(self._pieces) + lines[0]
            self._pieces = []
        if rest:
            self._pieces.append(rest)
        return lines


@dataclass(frozen=True)
class StreamEvent:
    """One event of an event stream: its name, `message` if the stream gives none, and its data."""

    name: str
    data: bytes


class EventParser:
    """Parses server-sent events (WHATWG HTML, section 9.2) of a server that ends its lines by LF."""

    def __init__(self) -> None:
        self.retry_after: Optional[float] = None
        """The reconnection time that the stream names, in seconds."""
        self.comments = 0
        """Number of comments, which are heartbeats."""
        self._lines = Lines()
        self._name = b""
        self._data: List[bytes] = []

    def feed(self, chunk: bytes) -> List[StreamEvent]:
        """The events that this chunk completes. Ids are left out, since the data has the position."""
        events: List[StreamEvent] = []
        for line in self._lines.feed(chunk):
            if line.endswith(b"\r"):
                line = line[:-1]
            if not line:
                # An event without data is not dispatched.
                if self._data:
                    events.append(StreamEvent(self._name.decode("utf-8", "replace") or "message", b"\n".join(self._data)))
                self._name, self._data = b"", []
                continue
            field, _, value = line.partition(b":")
            if not field:
                self.comments += 1
            if value.startswith(b" "):
                value = value[1:]
            if field == b"data":
                self._data.append(value)
            elif field == b"event":
                self._name = value
            elif field == b"retry" and value.isdigit():
                self.retry_after = int(value) / 1_000
        return events


def parse_object(data: bytes) -> Dict[str, Any]:
    """Parses a JSON object; a `ProtocolError` for anything else."""
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ProtocolError("a frame is not a JSON object. Is this a Threadline server?")
    return value
