"""Assigns chunks to streams.

A ``*_CHUNK`` combines start, content and end; a chunk that continues a stream may omit the id. Each lane has one open
stream. A lane is the subagent to which chunks are attributed, or the parent agent if there is none.
"""

from typing import Literal, NamedTuple

#: Kinds of streams that consist of chunks.
Kind = Literal["TEXT", "TOOL", "REASONING"]

#: Attributes of a stream in a chunk: role and name of a message, or name and parent of a call.
Said = tuple[str | None, str | None]


class Chunk(NamedTuple):
    kind: Kind
    id: str | None
    #: The subagent to which the chunk is attributed; None is the parent agent.
    owner: str | None
    said: Said


class _Stream(NamedTuple):
    kind: Kind
    id: str
    #: Attributes in the first chunk; later chunks may only repeat them.
    said: Said


class Step(NamedTuple):
    """Effect of a chunk: it opens the stream of this id, or continues it."""

    id: str
    is_opened: bool


class Lanes:
    """The open streams."""

    __slots__ = ("_holders", "_open")

    def __init__(self) -> None:
        self._open: dict[str | None, _Stream] = {}
        # For each kind, the lane of each stream. A stream is open in one lane at most.
        self._holders: dict[Kind, dict[str, str | None]] = {"TEXT": {}, "TOOL": {}, "REASONING": {}}

    @property
    def is_empty(self) -> bool:
        return not self._open

    def close(self, owner: str | None) -> None:
        """Closes the open stream of a lane, after an event that is not a chunk."""
        stream = self._open.pop(owner, None)
        if stream is not None:
            self._holders[stream.kind].pop(stream.id, None)

    def close_all(self) -> None:
        """Closes all streams, after an event of the whole run."""
        self._open.clear()
        for holders in self._holders.values():
            holders.clear()

    def take(self, chunk: Chunk) -> Step | None:
        """Finds or opens the stream of a chunk; None if the chunk is invalid."""
        kind, wanted, owner, said = chunk
        holders = self._holders[kind]
        lane = owner
        if wanted is not None and wanted in holders:
            lane = holders[wanted]
            if owner is not None and owner != lane:
                return None
        elif wanted is None and owner is None and not self._is_open(None, kind):
            # Without an id and an owner, the chunk can only belong to the single open stream of its kind.
            if len(holders) != 1:
                return None
            lane = next(iter(holders.values()))
        stream = self._open.get(lane)
        if stream is not None and stream.kind == kind and wanted in (None, stream.id):
            agrees = all(new is None or new == old for new, old in zip(said, stream.said, strict=True))
            return Step(stream.id, is_opened=False) if agrees else None
        if wanted is None or (kind == "TOOL" and said[0] is None):
            return None
        self.close(lane)
        first = "assistant" if kind == "TEXT" and said[0] is None else said[0]
        self._open[lane] = _Stream(kind, wanted, (first, said[1]))
        holders[wanted] = lane
        return Step(wanted, is_opened=True)

    def _is_open(self, lane: str | None, kind: Kind) -> bool:
        stream = self._open.get(lane)
        return stream is not None and stream.kind == kind
