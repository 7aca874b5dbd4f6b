"""A LangGraph checkpointer."""

from __future__ import annotations

from typing import Any, AsyncIterator, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from .._async.saving import AsyncSaving
from .._errors import ConfigError
from .._limits import CHECKPOINT_PAGE, CHECKPOINT_PAGE_GROWTH, CHECKPOINT_PAGE_MAX
from .._sync.saving import Saving
from ..checkpoints import CheckpointPage, History
from ._checkpoint_parts import config_of, configurable, loaded, matches, next_version, pending, run_key, stored, stored_writes, user_of
from ._clients import Calls, Client

Filter = Optional[Dict[str, Any]]


class ThreadlineSaver(BaseCheckpointSaver[str]):
    """A `BaseCheckpointSaver` whose checkpoints belong to the thread of Threadline with the id `thread_id` of the config.

    The first checkpoint creates a thread that does not exist: for the client's user, or for `user_id` of the config if the client
    has none. With a `Threadline`, all methods work; with an `AsyncThreadline`, only the asynchronous ones. `delete_thread` deletes
    the checkpoints of a thread; with `delete_threads` it also deletes the thread and its messages.
    """

    def __init__(self, client: Client, *, serde: Optional[SerializerProtocol] = None, delete_threads: bool = False) -> None:
        super().__init__(serde=serde)
        self.delete_threads = delete_threads
        self._calls: Calls[Saving, AsyncSaving] = Calls(client, lambda one: Saving(one._http), lambda one: AsyncSaving(one._http))

    def get_next_version(self, current: Optional[str], channel: None) -> str:
        return next_version(current)

    # Reading.

    def get_tuple(self, config: RunnableConfig) -> Optional[CheckpointTuple]:
        """The checkpoint of the config, by default the newest one; None if there is none."""
        thread_id, ns, checkpoint_id = _place(config)
        found = self._calls.synchronous.get(str(thread_id), ns, checkpoint_id)
        return None if found is None else loaded(self.serde, thread_id, found)

    async def aget_tuple(self, config: RunnableConfig) -> Optional[CheckpointTuple]:
        thread_id, ns, checkpoint_id = _place(config)
        found = await self._calls.asynchronous.get(str(thread_id), ns, checkpoint_id)
        return None if found is None else loaded(self.serde, thread_id, found)

    def list(
        self,
        config: Optional[RunnableConfig],
        *,
        filter: Filter = None,
        before: Optional[RunnableConfig] = None,
        limit: Optional[int] = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints of a thread, newest first. Without a config, checkpoints of all threads."""
        wanted = _Listing(config, filter, before, limit)
        if wanted.single is not None:
            yield from wanted.only(self.get_tuple(wanted.single))
        while wanted.goes_on:
            page = self._calls.synchronous.page(wanted.thread, **wanted.next)
            yield from wanted.take(self.serde, page)

    async def alist(
        self,
        config: Optional[RunnableConfig],
        *,
        filter: Filter = None,
        before: Optional[RunnableConfig] = None,
        limit: Optional[int] = None,
    ) -> AsyncIterator[CheckpointTuple]:
        wanted = _Listing(config, filter, before, limit)
        if wanted.single is not None:
            for one in wanted.only(await self.aget_tuple(wanted.single)):
                yield one
        while wanted.goes_on:
            page = await self._calls.asynchronous.page(wanted.thread, **wanted.next)
            for one in wanted.take(self.serde, page):
                yield one

    def get_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, Any]:
        """For each channel, the last value that was stored before a checkpoint, as `seed`, and the writes since."""
        if not channels:
            return {}
        thread_id, ns, checkpoint_id = _place(config)
        return self._histories(self._calls.synchronous.history(str(thread_id), ns, checkpoint_id, channels))

    async def aget_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, Any]:
        if not channels:
            return {}
        thread_id, ns, checkpoint_id = _place(config)
        return self._histories(await self._calls.asynchronous.history(str(thread_id), ns, checkpoint_id, channels))

    def _histories(self, found: Mapping[str, History]) -> Dict[str, Any]:
        histories: Dict[str, Any] = {}
        for channel, history in found.items():
            histories[channel] = {"writes": pending(self.serde, history.writes)}
            if history.seed is not None:
                histories[channel]["seed"] = self.serde.loads_typed((history.seed.type, history.seed.data))
        return histories

    # Writing.

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Stores a checkpoint with the values of the channels that have changed; returns its config."""
        self._calls.synchronous.put(*self._put(config, checkpoint, metadata, new_versions))
        return _stored_at(config, checkpoint)

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        await self._calls.asynchronous.put(*self._put(config, checkpoint, metadata, new_versions))
        return _stored_at(config, checkpoint)

    def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, versions: ChannelVersions
    ) -> Tuple[Any, ...]:
        def part(of: ChannelVersions) -> Any:
            return stored(self.serde, config, checkpoint, metadata, of)

        thread_id = str(configurable(config)["thread_id"])
        return thread_id, user_of(config), part(versions), lambda: part(checkpoint["channel_versions"])

    def put_writes(self, config: RunnableConfig, writes: Sequence[Tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Stores the writes of a task after a checkpoint."""
        if writes:
            self._calls.synchronous.put_writes(*self._written(config, writes, task_id, task_path))

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[Tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        if writes:
            await self._calls.asynchronous.put_writes(*self._written(config, writes, task_id, task_path))

    def _written(self, config: RunnableConfig, writes: Sequence[Tuple[str, Any]], task_id: str, task_path: str) -> Tuple[Any, ...]:
        thread_id, ns, checkpoint_id = _place(config)
        return str(thread_id), user_of(config), ns, checkpoint_id, stored_writes(self.serde, writes, task_id, task_path)

    # Removing and copying.

    def delete_thread(self, thread_id: str) -> None:
        """Deletes the checkpoints of a thread, and with `delete_threads` the thread."""
        self._calls.synchronous.delete(str(thread_id), self.delete_threads)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._calls.asynchronous.delete(str(thread_id), self.delete_threads)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints whose metadata have one of these as `run_id`, in all threads."""
        self._calls.synchronous.delete_runs([run_key(run_id) for run_id in run_ids])

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._calls.asynchronous.delete_runs([run_key(run_id) for run_id in run_ids])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Adds all checkpoints of a thread to another one of the same user."""
        self._calls.synchronous.copy(str(source_thread_id), str(target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._calls.asynchronous.copy(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes all checkpoints of threads (`delete`), or all except the newest ones and the ancestors that they need (`keep_latest`)."""
        keeps = _keeps(strategy)
        for thread_id in map(str, thread_ids):
            if keeps:
                self._calls.synchronous.prune(thread_id)
            else:
                self._calls.synchronous.delete(thread_id, False)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        keeps = _keeps(strategy)
        for thread_id in map(str, thread_ids):
            if keeps:
                await self._calls.asynchronous.prune(thread_id)
            else:
                await self._calls.asynchronous.delete(thread_id, False)


class _Listing:
    """Filters of a list of checkpoints, and its progress."""

    def __init__(self, config: Optional[RunnableConfig], filter: Filter, before: Optional[RunnableConfig], limit: Optional[int]) -> None:
        given = configurable(config) if config else {}
        self._thread_id = given.get("thread_id")
        self._filter = filter
        self._before = get_checkpoint_id(before) if before else None
        self._ns = given.get("checkpoint_ns")
        self._left = float("inf") if limit is None else limit
        self._cursor: Optional[str] = None
        self._page = CHECKPOINT_PAGE
        self.thread = None if self._thread_id is None else str(self._thread_id)
        self.single = config if config and get_checkpoint_id(config) else None
        self.goes_on = self.single is None and self._left > 0

    @property
    def next(self) -> Dict[str, Any]:
        """Options of the request for the next page."""
        limit = int(min(self._page, self._left))
        return {"ns": self._ns, "before": self._before, "filter": self._filter, "limit": limit, "cursor": self._cursor}

    def take(self, serde: SerializerProtocol, page: CheckpointPage) -> List[CheckpointTuple]:
        self._cursor = page.cursor
        self._page = min(CHECKPOINT_PAGE_GROWTH * self._page, CHECKPOINT_PAGE_MAX)
        self._left -= len(page.checkpoints)
        self.goes_on = page.cursor is not None and self._left > 0
        return [loaded(serde, self._thread_id or one.thread_id, one) for one in page.checkpoints]

    def only(self, found: Optional[CheckpointTuple]) -> List[CheckpointTuple]:
        """The one checkpoint that the config names, if it is in the list."""
        if found is None or self._left <= 0 or not matches(found.metadata, self._filter):
            return []
        return [found] if self._before is None or found.checkpoint["id"] < self._before else []


def _place(config: RunnableConfig) -> Tuple[Any, str, Any]:
    """The thread, the namespace and the checkpoint of a config."""
    given = configurable(config)
    return given["thread_id"], given.get("checkpoint_ns", ""), get_checkpoint_id(config)


def _stored_at(config: RunnableConfig, checkpoint: Checkpoint) -> RunnableConfig:
    thread_id, ns, _ = _place(config)
    return config_of(thread_id, ns, checkpoint["id"])


def _keeps(strategy: str) -> bool:
    if strategy in ("keep_latest", "delete"):
        return strategy == "keep_latest"
    raise ConfigError(f'there is no strategy "{strategy}": pass keep_latest or delete')


__all__ = ["ThreadlineSaver"]
