"""Copies of checkpoints from other checkpointers of LangGraph, such as `SqliteSaver` and `PostgresSaver`."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, CheckpointTuple

from ..checkpoints import Checkpoint
from ._checkpoint_parts import configurable, stored, stored_writes
from .saver import ThreadlineSaver


def copy_checkpoints(
    source: BaseCheckpointSaver[Any],
    target: ThreadlineSaver,
    *,
    thread_id: Optional[str] = None,
    user_of: Optional[Callable[[str], str]] = None,
) -> int:
    """Copies the checkpoints of a thread, or of all threads, with their metadata and pending writes. Returns their number.

    `user_of` returns the user of a thread, for whom the thread is created if it does not exist. Leave it out if the client of `target`
    has a user. Checkpoints keep their IDs, so an interrupted copy can be repeated. Stop the graphs of the threads first.
    """
    saving = target._calls.synchronous
    sent: Set[Tuple[str, str, str, str]] = set()
    count = 0
    for found in source.list(None if thread_id is None else {"configurable": {"thread_id": thread_id}}):
        place = configurable(found.config)
        thread, ns, checkpoint_id = str(place["thread_id"]), place.get("checkpoint_ns", ""), found.checkpoint["id"]
        owner = user_of(thread) if user_of else None
        for number, (task_id, writes) in enumerate(_tasks(found)):
            # A checkpointer returns writes in the order of the paths of their tasks, but not the paths.
            path = f"{number:06d}"
            saving.put_writes(thread, owner, ns, checkpoint_id, stored_writes(target.serde, writes, task_id, path))
        put = _Put(target, found, ns)
        versions = found.checkpoint["channel_versions"]
        # Checkpoints share the values of channels that have not changed.
        new = {name: one for name, one in versions.items() if (thread, ns, name, str(one)) not in sent}
        saving.put(thread, owner, put.of(new), partial(put.of, versions))
        sent.update((thread, ns, name, str(one)) for name, one in versions.items())
        count += 1
    return count


class _Put:
    """A checkpoint to store."""

    def __init__(self, target: ThreadlineSaver, found: CheckpointTuple, ns: str) -> None:
        self._target = target
        self._found = found
        parent = configurable(found.parent_config).get("checkpoint_id") if found.parent_config else None
        self._config: Any = {"configurable": {"checkpoint_ns": ns, "checkpoint_id": parent}}

    def of(self, versions: ChannelVersions) -> Checkpoint:
        """The checkpoint with the values of these versions."""
        found = self._found
        return stored(self._target.serde, self._config, found.checkpoint, found.metadata, versions)


def _tasks(found: CheckpointTuple) -> List[Tuple[str, List[Tuple[str, Any]]]]:
    """The pending writes of each task."""
    tasks: Dict[str, List[Tuple[str, Any]]] = {}
    for task_id, channel, value in found.pending_writes or []:
        tasks.setdefault(task_id, []).append((channel, value))
    return list(tasks.items())


__all__ = ["copy_checkpoints"]
