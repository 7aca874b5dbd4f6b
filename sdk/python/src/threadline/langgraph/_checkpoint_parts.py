"""Conversion between checkpoints of LangGraph and checkpoints of a thread."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from base64 import b64decode, b64encode
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    CheckpointMetadata,
    CheckpointTuple,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.base import Checkpoint as GraphCheckpoint
from langgraph.checkpoint.serde.base import SerializerProtocol

from .._json import JsonObject, is_json, to_json
from .._limits import MAX_ID_BYTES
from ..checkpoints import EMPTY, Blob, Checkpoint, Write

SERIALIZED = "threadline.serialized"
"""Member of stored metadata for the members that JSON cannot represent, such as NaN and dates, written by LangGraph's serializer."""


def configurable(config: RunnableConfig) -> Mapping[str, Any]:
    """The part of a config that names a thread, a namespace and a checkpoint."""
    return config.get("configurable", {})


def next_version(current: object) -> str:
    """The next version of a channel. Branches of one checkpoint count from the same number, so a random part makes versions unique."""
    count = 0 if current is None else int(str(current).split(".")[0])
    return f"{count + 1:032d}.{secrets.randbelow(10**16):016d}"


def stored(
    serde: SerializerProtocol,
    config: RunnableConfig,
    checkpoint: GraphCheckpoint,
    metadata: CheckpointMetadata,
    versions: ChannelVersions,
) -> Checkpoint:
    """A checkpoint with the blobs of these versions of its channels."""
    given = configurable(config)
    values = checkpoint["channel_values"]
    type_, data = serde.dumps_typed({name: value for name, value in checkpoint.items() if name != "channel_values"})
    described = cast(Dict[str, Any], get_serializable_checkpoint_metadata(config, metadata))
    run_id = described.get("run_id")
    return Checkpoint(
        ns=given.get("checkpoint_ns", ""),
        id=checkpoint["id"],
        type=type_,
        data=data,
        metadata=_written(serde, described),
        channels=[(channel, str(version)) for channel, version in checkpoint["channel_versions"].items()],
        parent_id=given.get("checkpoint_id"),
        run_id=run_key(run_id) if isinstance(run_id, str) and run_id else None,
        blobs=[_blob(serde, values, channel, str(version)) for channel, version in versions.items()],
    )


def run_key(run_id: str) -> str:
    """The id under which the checkpoints of a run are deleted: its own, or its SHA-256 if Threadline does not allow it as an ID."""
    text = run_id.encode("utf-8", "surrogatepass")
    is_id = re.fullmatch(r"(?!\.{1,2}$)[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+", run_id) and len(text) <= MAX_ID_BYTES
    return run_id if is_id else hashlib.sha256(text).hexdigest()


def _written(serde: SerializerProtocol, metadata: Mapping[str, Any]) -> JsonObject:
    """Metadata as JSON. Filters compare the members that JSON can represent."""
    plain = {name: value for name, value in metadata.items() if is_json(value)}
    others = {name: value for name, value in metadata.items() if name not in plain}
    if others:
        type_, data = serde.dumps_typed(others)
        plain[SERIALIZED] = {"type": type_, "data": b64encode(data).decode("ascii")}
    return plain


def _read(serde: SerializerProtocol, stored: Mapping[str, Any]) -> JsonObject:
    """Metadata of a stored checkpoint."""
    metadata = dict(stored)
    others = metadata.pop(SERIALIZED, None)
    if others is not None:
        metadata.update(serde.loads_typed((others["type"], b64decode(others["data"]))))
    return metadata


def _blob(serde: SerializerProtocol, values: Mapping[str, Any], channel: str, version: str) -> Blob:
    type_, data = serde.dumps_typed(values[channel]) if channel in values else (EMPTY, b"")
    return Blob(channel, version, type_, data)


def stored_writes(serde: SerializerProtocol, writes: Iterable[Tuple[str, Any]], task_id: str, task_path: str) -> List[Write]:
    """The writes of a task. Writes to LangGraph's internal channels have an index below 0, where a later write replaces them."""
    return [
        Write(task_id, task_path, WRITES_IDX_MAP.get(channel, index), channel, *serde.dumps_typed(value))
        for index, (channel, value) in enumerate(writes)
    ]


def pending(serde: SerializerProtocol, writes: Sequence[Write]) -> List[Tuple[str, str, Any]]:
    """Writes in the form of `pending_writes`."""
    return [(write.task_id, write.channel, serde.loads_typed((write.type, write.data))) for write in writes]


def loaded(serde: SerializerProtocol, thread_id: Any, found: Checkpoint) -> CheckpointTuple:
    """A checkpoint as a `CheckpointTuple`."""
    values = {blob.channel: serde.loads_typed((blob.type, blob.data)) for blob in found.blobs if blob.type != EMPTY}
    checkpoint: Any = {**serde.loads_typed((found.type, found.data)), "channel_values": values}
    return CheckpointTuple(
        config=config_of(thread_id, found.ns, found.id),
        checkpoint=checkpoint,
        metadata=cast(CheckpointMetadata, _read(serde, found.metadata)),
        parent_config=config_of(thread_id, found.ns, found.parent_id) if found.parent_id else None,
        pending_writes=pending(serde, found.writes),
    )


def config_of(thread_id: Any, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


def user_of(config: RunnableConfig) -> Optional[str]:
    """The user for whom a thread is created."""
    user_id = configurable(config).get("user_id")
    return user_id if isinstance(user_id, str) and user_id else None


def matches(metadata: Mapping[str, Any], wanted: Optional[Mapping[str, Any]]) -> bool:
    """True if the metadata have these members, compared as JSON."""
    missing = object()
    return all(metadata.get(name, missing) == json.loads(to_json(value)) for name, value in (wanted or {}).items())
