"""Checkpoints of threads: states that a graph can continue from. `thread.checkpoints` reads and writes them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any, Iterable, List, Literal, Mapping, Optional, Sequence, Set, Tuple

from ._json import JsonObject
from ._limits import CHECKPOINT_BYTES

Fields = Literal["all", "head"]
"""Contents of a list: `all`, or `head`, without the data of checkpoints, blobs and writes."""

EMPTY = "empty"
"""Type of a blob without a value: its channel has a version, but is empty."""


@dataclass(frozen=True)
class Blob:
    """The value of a channel in one version."""

    channel: str
    version: str
    type: str
    """The format of `data`, as the writer names it."""
    data: bytes

    @classmethod
    def of(cls, given: JsonObject) -> Blob:
        return cls(given["channel"], given["version"], given["type"], _bytes(given))

    def body(self) -> JsonObject:
        return {"channel": self.channel, "version": self.version, "type": self.type, "data": _text(self.data)}


@dataclass(frozen=True)
class Write:
    """A value that a task has written after a checkpoint, before the next one."""

    task_id: str
    task_path: str
    idx: int
    channel: str
    type: str
    data: bytes

    @classmethod
    def of(cls, given: JsonObject) -> Write:
        data = _bytes(given)
        return cls(given["taskId"], given["taskPath"], given["idx"], given["channel"], given["type"], data)

    def body(self) -> JsonObject:
        return {"idx": self.idx, "channel": self.channel, "type": self.type, "data": _text(self.data)}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint. Its values are in blobs, which it shares with others of its namespace by the versions of its channels."""

    ns: str
    id: str
    type: str
    data: bytes
    metadata: Mapping[str, Any]
    channels: Sequence[Tuple[str, str]]
    """Each channel with its version."""
    parent_id: Optional[str] = None
    run_id: Optional[str] = None
    thread_id: Optional[str] = None
    """The thread of a checkpoint that was read; None before it is stored."""
    blobs: Sequence[Blob] = field(default_factory=lambda: [])
    writes: Sequence[Write] = field(default_factory=lambda: [])
    """In the order of task path, task id and index."""

    @classmethod
    def of(cls, given: JsonObject) -> Checkpoint:
        return cls(
            ns=given["ns"],
            id=given["id"],
            type=given["type"],
            data=_bytes(given),
            metadata=given["metadata"],
            channels=[(channel, version) for channel, version in given["channels"]],
            parent_id=given["parentId"],
            run_id=given["runId"],
            thread_id=given["threadId"],
            blobs=[Blob.of(one) for one in given["blobs"]],
            writes=[Write.of(one) for one in given["writes"]],
        )

    def body(self) -> JsonObject:
        """The checkpoint without its blobs."""
        optional = {"parentId": self.parent_id, "runId": self.run_id}
        return {
            "type": self.type,
            "data": _text(self.data),
            "metadata": dict(self.metadata),
            "channels": [list(pair) for pair in self.channels],
            **{name: value for name, value in optional.items() if value is not None},
        }


@dataclass(frozen=True)
class CheckpointPage:
    """A page of checkpoints, the greatest id first."""

    checkpoints: List[Checkpoint]
    cursor: Optional[str]
    """Beginning of the next page; None at the end. An empty page may have a cursor."""


@dataclass
class History:
    """Parts of the value of a `DeltaChannel`: a stored value, and the writes after it."""

    seed: Optional[Blob] = None
    writes: List[Write] = field(default_factory=lambda: [])
    """The oldest first."""

    def precede(self, channel: str, ancestor: Checkpoint) -> bool:
        """Adds the writes and the value of an ancestor in front. True if the ancestor has the value, so that no older one is needed."""
        self.writes[:0] = [write for write in ancestor.writes if write.channel == channel]
        self.seed = next((blob for blob in ancestor.blobs if blob.channel == channel and blob.type != EMPTY), None)
        return self.seed is not None


def needed(heads: Sequence[Checkpoint]) -> Set[str]:
    """Ids of the newest of these checkpoints, and of the ancestors that its values are built from.

    The metadata count the changes of a `DeltaChannel` while the checkpoint has no value for it. The value of the channel is that of
    the nearest ancestor with a value, with the writes since applied.
    """
    by_id = {head.id: head for head in heads}
    head: Optional[Checkpoint] = by_id[max(by_id)]
    kept: Set[str] = set()
    open_channels: Optional[Set[str]] = None
    while head is not None:
        kept.add(head.id)
        if open_channels is None:
            counted = head.metadata.get("counters_since_delta_snapshot")
            # A channel without a version was never written: there is nothing to build.
            open_channels = {channel for channel, _ in head.channels}.intersection(counted or ())
        open_channels -= {blob.channel for blob in head.blobs if blob.type != EMPTY}
        head = by_id.get(head.parent_id or "") if open_channels else None
    return kept


def groups(blobs: Iterable[Blob]) -> List[List[JsonObject]]:
    """The bodies of blobs in groups, each small enough for one request."""
    grouped: List[List[JsonObject]] = []
    size = 0
    for blob in blobs:
        body = blob.body()
        length = len(body["data"])
        if not grouped or size + length > CHECKPOINT_BYTES:
            grouped.append([])
            size = 0
        grouped[-1].append(body)
        size += length
    return grouped


def length_of(body: JsonObject) -> int:
    """Length of the data of a checkpoint or blob, the only part of a request that can be large."""
    return len(body["data"])


def _bytes(given: JsonObject) -> bytes:
    return b64decode(given.get("data", ""))


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


__all__ = ["Blob", "Checkpoint", "CheckpointPage", "Write"]
