"""Requests of a checkpointer: checkpoints of threads that need not exist yet."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict, List, Mapping, Optional, Sequence

from .._calls import Call
from .._errors import ConfigError
from .._limits import CHECKPOINT_HEADS, CHECKPOINT_PAGE
from .._records import ThreadRecord
from ..checkpoints import Checkpoint, CheckpointPage, Fields, History, Write, needed
from ..problems import BlobMissing, CheckpointNotFound, InvalidRequest, ThreadExists, ThreadNotFound
from .checkpoints import AsyncAllCheckpoints, AsyncCheckpoints
from .http import AsyncHttp
from .threads import AsyncThreads

EXPECTED = ("thread-not-found", "checkpoint-not-found", "blob-missing")
"""Problems that are normal for a checkpointer, and not logged as warnings."""


class AsyncSaving:
    """Checkpoints by the ids of threads. A write creates a missing thread; a read finds no checkpoints in it."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http
        self._threads = AsyncThreads(http)
        self._all = AsyncAllCheckpoints(http)

    def _of(self, thread_id: str) -> AsyncCheckpoints:
        return AsyncCheckpoints(self._http, thread_id, EXPECTED)

    async def get(self, thread_id: str, ns: str, checkpoint_id: Optional[str]) -> Optional[Checkpoint]:
        """A checkpoint, by default the newest of the namespace."""
        try:
            return await self._of(thread_id).get(ns, checkpoint_id)
        except (ThreadNotFound, CheckpointNotFound):
            return None

    async def page(
        self,
        thread_id: Optional[str],
        *,
        ns: Optional[str] = None,
        before: Optional[str] = None,
        filter: Optional[Mapping[str, Any]] = None,
        fields: Fields = "all",
        limit: int = CHECKPOINT_PAGE,
        cursor: Optional[str] = None,
    ) -> CheckpointPage:
        """A page of the checkpoints of a thread, or of all threads, the newest first."""
        listed = self._all if thread_id is None else self._of(thread_id)
        try:
            return await listed.list(ns=ns, before=before, filter=filter, fields=fields, limit=limit, cursor=cursor)
        except ThreadNotFound:
            return CheckpointPage([], None)

    async def put(self, thread_id: str, user_id: Optional[str], checkpoint: Checkpoint, whole: Callable[[], Checkpoint]) -> None:
        """Stores a checkpoint. `whole` returns it with the blobs of all channels, in case earlier blobs were deleted."""
        checkpoints = self._of(thread_id)
        try:
            await self._there(thread_id, user_id, lambda: checkpoints.put(checkpoint))
        except BlobMissing:
            # The checkpoints of the thread were deleted while its graph runs.
            await checkpoints.put(whole())

    async def put_writes(self, thread_id: str, user_id: Optional[str], ns: str, checkpoint_id: str, writes: Sequence[Write]) -> None:
        """Stores the writes of a task."""
        checkpoints = self._of(thread_id)
        await self._there(thread_id, user_id, lambda: checkpoints.put_writes(ns, checkpoint_id, writes))

    async def _there(self, thread_id: str, user_id: Optional[str], write: Callable[[], Awaitable[None]]) -> None:
        """Creates the thread if the write does not find it, and repeats the write."""
        try:
            await write()
        except ThreadNotFound:
            await self._make(thread_id, user_id)
            await write()

    async def _make(self, thread_id: str, user_id: Optional[str]) -> None:
        # The client's user has priority, as in all other requests of the client.
        named = "Threadline-User" in self._http.config.identity
        try:
            await self._threads.create(thread_id, user_id=None if named else user_id)
        except ThreadExists as error:
            # Another call has created the thread in the meantime, or the thread belongs to another user.
            try:
                await self._http.call(Call(["threads", thread_id], expected=EXPECTED))
            except ThreadNotFound:
                raise error from None
        except InvalidRequest as error:
            if named or user_id is not None:
                raise
            raise ConfigError(
                f'there is no thread "{thread_id}", and no user for whom it could be made: pass user to the client, or user_id '
                "in the config"
            ) from error

    async def delete(self, thread_id: str, with_thread: bool) -> None:
        """Deletes the checkpoints of a thread, or the whole thread."""
        try:
            if with_thread:
                await self._http.call(Call(["threads", thread_id], "DELETE", expected=EXPECTED))
            else:
                await self._of(thread_id).delete()
        except ThreadNotFound:
            pass

    async def delete_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of runs, in all threads."""
        for run_id in run_ids:
            await self._all.delete_run(run_id)

    async def copy(self, source: str, target: str) -> None:
        """Adds the checkpoints of a thread to another thread, which is created for the same user if it does not exist."""
        checkpoints = self._of(target)
        try:
            await checkpoints.copy(source)
        except ThreadNotFound:
            try:
                owner = ThreadRecord.of(await self._http.call(Call(["threads", source], expected=EXPECTED))).user_id
            except ThreadNotFound:
                return
            await self._make(target, owner)
            await checkpoints.copy(source)

    async def prune(self, thread_id: str) -> None:
        """Deletes all but the newest checkpoint of each namespace, and the ancestors from which its values are built."""
        checkpoints = self._of(thread_id)
        heads: Dict[str, List[Checkpoint]] = {}
        cursor: Optional[str] = None
        while True:
            page = await self.page(thread_id, fields="head", limit=CHECKPOINT_HEADS, cursor=cursor)
            for head in page.checkpoints:
                heads.setdefault(head.ns, []).append(head)
            cursor = page.cursor
            if cursor is None:
                break
        for ns, some in heads.items():
            kept = needed(some)
            gone = [head.id for head in some if head.id not in kept]
            for at in range(0, len(gone), CHECKPOINT_HEADS):
                await checkpoints.delete(ns=ns, ids=gone[at : at + CHECKPOINT_HEADS])

    async def history(self, thread_id: str, ns: str, checkpoint_id: Optional[str], channels: Sequence[str]) -> Dict[str, History]:
        """For each channel, its value in the nearest ancestor of a checkpoint that has one, and the writes since."""
        histories = {channel: History() for channel in channels}
        open_channels = set(channels)
        child = await self.get(thread_id, ns, checkpoint_id)
        wanted = child.parent_id if child else None
        before = child.id if child else None
        cursor: Optional[str] = None
        while wanted and open_channels:
            # Ids grow from parent to child, so a list has the ancestors in order, with other branches between them.
            page = await self.page(thread_id, ns=ns, before=before, cursor=cursor)
            for checkpoint in page.checkpoints:
                if not wanted or not open_channels or checkpoint.id < wanted:
                    return histories
                if checkpoint.id == wanted:
                    wanted = checkpoint.parent_id
                    open_channels -= {name for name in open_channels if histories[name].precede(name, checkpoint)}
            cursor = page.cursor
            if cursor is None:
                break
        return histories
