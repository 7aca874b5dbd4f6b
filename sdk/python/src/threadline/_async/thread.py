"""One thread."""

from __future__ import annotations

from typing import Any, AsyncGenerator, Awaitable, Callable, Iterable, List, Mapping, Optional, Sequence, Union

import httpx

from .._calls import Call, lost, not_busy
from .._errors import RunEnded
from .._ids import new_id
from .._items import Cursor
from .._json import JsonObject, plain
from .._lines import Lines
from .._message_ids import MessageIds
from .._opening import UNSET
from .._options import Busy, OnExisting, StopBy
from .._records import Branches, Queue, QueuedRun, RunPage, RunRecord, StartedRun, ThreadRecord
from .._stored import EventPage, Messages, StateAt
from ..problems import LogReplaced
from .checkpoints import AsyncCheckpoints
from .http import AsyncHttp
from .items import AsyncItems
from .run import AsyncRun
from .runs import AsyncRuns
from .subscription import AsyncSubscription


class AsyncThread:
    """A reference to one thread, by its id. A reference makes no request: the first call reports a missing thread (`ThreadNotFound`).

    `epoch` is the epoch of the log that the caller has read. If the thread has another epoch, a write raises `LogReplaced`.
    """

    def __init__(self, http: AsyncHttp, thread_id: str) -> None:
        self.thread_id: str = thread_id
        self.checkpoints = AsyncCheckpoints(http, thread_id)
        """Checkpoints of graphs that belong to the thread."""
        self._http = http
        self._runs = AsyncRuns(http, thread_id)
        self._path = ["threads", thread_id]

    async def get(self) -> ThreadRecord:
        """The record of the thread. Raises `ThreadNotFound`, also for a thread of another user."""
        return ThreadRecord.of(await self._read())

    async def update(
        self,
        *,
        name: Optional[str] = UNSET,
        archived: bool = UNSET,
        metadata: Mapping[str, Any] = UNSET,
        epoch: Optional[str] = None,
    ) -> ThreadRecord:
        """Changes members of the thread. A name of None removes the name; `metadata` is a merge patch (RFC 7396).

        A name has at most 1,024 bytes, and the metadata at most 64 KiB of JSON.
        """
        members = {"name": name, "archived": archived, "metadata": metadata}
        body = {key: value for key, value in members.items() if value is not UNSET}
        return ThreadRecord.of(await self._http.call(Call(self._path, "PATCH", query={"epoch": epoch}, body=body)))

    async def rename(self, name: Optional[str], *, epoch: Optional[str] = None) -> ThreadRecord:
        """Changes the name, of at most 1,024 bytes, or removes it (None)."""
        return await self.update(name=name, epoch=epoch)

    async def archive(self, *, epoch: Optional[str] = None) -> ThreadRecord:
        """Archives the thread: lists leave it out, unless they ask for archived threads. The log is kept, and runs continue."""
        return await self.update(archived=True, epoch=epoch)

    async def unarchive(self, *, epoch: Optional[str] = None) -> ThreadRecord:
        """Unarchives the thread: lists show it again."""
        return await self.update(archived=False, epoch=epoch)

    async def delete(self, *, branches: bool = False, epoch: Optional[str] = None) -> None:
        """Deletes the thread and its log, or moves it to the trash if the server has one; with `branches`, its branches as well.

        With `epoch`, a newer thread with this id is not deleted. Raises `ThreadNotFound`.
        """
        query = {"epoch": epoch, "branches": True if branches else None}
        try:
            await self._http.call(Call(self._path, "DELETE", query=query))
        except LogReplaced:
            pass  # the thread that is meant is gone already

    async def mark_read(self, seq: int, *, epoch: Optional[str] = None) -> ThreadRecord:
        """Moves the read mark forward to the event `seq`, never back. An event beyond the tail raises `CursorAhead`."""
        call = Call([*self._path, "read"], "PUT", query={"epoch": epoch}, body={"seq": seq})
        return ThreadRecord.of(await self._http.call(call))

    async def messages(
        self,
        *,
        at: Optional[int] = None,
        epoch: Optional[str] = None,
        limit: Optional[int] = None,
        before: Optional[str] = None,
    ) -> Messages:
        """A page of AG-UI messages after the event `at` (by default the newest event), oldest first.

        The page has the newest `limit` messages, or as many as fit into 4 MiB; with `before`, those before the message with this id.
        `at` belongs to the log `epoch`: another log raises `LogReplaced`.
        """
        return Messages.of(await self._read("messages", at=at, epoch=epoch, limit=limit, before=before))

    async def state(self, *, at: Optional[int] = None, epoch: Optional[str] = None) -> StateAt:
        """The state after the event `at`, by default the newest. `at` belongs to the log `epoch`: another log raises `LogReplaced`."""
        return StateAt.of(await self._read("state", at=at, epoch=epoch))

    async def events(
        self,
        *,
        after: Optional[int] = None,
        before: Optional[int] = None,
        epoch: Optional[str] = None,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
        run_id: Optional[str] = None,
    ) -> EventPage:
        """A page of events, oldest first: 1,000 by default, and `limit` is at most 10,000.

        The page has the first events, those with a seq above `after`, or the newest ones below `before`; both belong to the log `epoch`
        (`LogReplaced`). Or `cursor`: the `next_cursor` of a page. `run_id`: only the events of this run.
        """
        query = {"after": after, "before": before, "epoch": epoch, "cursor": cursor, "limit": limit, "runId": run_id}
        return EventPage.of(await self._read("events", **query))

    async def lines(self, *, cursor: Optional[Cursor] = None, run_id: Optional[str] = None) -> AsyncGenerator[bytes, None]:
        """The log after a position, up to its tail: `{"seq":…,"runId":…,"at":…,"event":…}`, a line for each event.

        Each event appears byte for byte as it was appended. An interrupted read raises `ConnectionFailed`: continue after the
        last line.
        """
        query = {"after": cursor.after if cursor else None, "epoch": cursor.epoch if cursor else None, "runId": run_id}
        headers = {"Accept": "application/x-ndjson"}
        response = await self._http.open(Call([*self._path, "events"], query=query, headers=headers))
        lines = Lines()
        try:
            async for chunk in response.aiter_bytes():
                for line in lines.feed(chunk):
                    yield line
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise lost(self._http.config, error) from error
        finally:
            await self._http.done(response)

    def subscribe(self, cursor: Optional[Cursor] = None, *, run_id: Optional[str] = None) -> AsyncSubscription:
        """Follows the thread from a cursor: stored events, then live ones, with automatic reconnects.

        With `run_id`, only this run; the iterator ends with it. It raises if reconnecting cannot help (`ThreadNotFound`,
        `LogReplaced`, `CursorAhead`, `Unauthorized`).
        """
        return AsyncSubscription(self._http, self.thread_id, cursor, run_id)

    async def start(
        self,
        agent_id: str,
        *,
        messages: Iterable[object] = (),
        input: Optional[Mapping[str, Any]] = None,
        resume: Optional[Iterable[object]] = None,
        run_id: Optional[str] = None,
        busy: Optional[Busy] = None,
        fork: Optional[Mapping[str, Any]] = None,
        epoch: Optional[str] = None,
    ) -> Union[StartedRun, QueuedRun]:
        """Delegates a run to an agent of the server. The run continues if the caller disconnects; follow the thread for its events.

        `input` has further members of AG-UI's RunAgentInput; messages are the new ones alone. `busy`: `reject`, the default,
        `enqueue` or `interrupt`. Raises `RunActive` if another run is active, and `InterruptsOpen` if the thread waits for
        answers (`resume`). With `fork`, the run begins in a fork of the thread, the `thread_id` of the result.
        """
        given: JsonObject = {**(input or {})}
        new = [plain(message) for message in messages]
        if new:
            given["messages"] = new
        if resume is not None:
            given["resume"] = [plain(one) for one in resume]
        body: JsonObject = {"runId": run_id or new_id(), "agentId": agent_id, "input": given}
        # Without `busy` the agent decides.
        if fork is None or busy is not None:
            body["busy"] = busy or "reject"
        if fork is not None:
            body["fork"] = dict(fork)
        call = Call([*self._path, "runs"], "POST", query={"epoch": epoch}, body=body, keyed=True, again=not_busy)
        answer = await self._http.call(call)
        return QueuedRun.of(answer) if "queued" in answer else StartedRun.of(answer)

    async def stop(self, run_id: str, *, epoch: Optional[str] = None) -> RunRecord:
        """Requests a stop of a run, and returns its record. The producer has 10 s to end the run; then the server ends it.

        A run that has ended does not change. Raises `RunNotFound`.
        """
        return await self._runs.stop(run_id, epoch)

    async def runs(self, *, limit: Optional[int] = None, cursor: Optional[str] = None, at: Optional[int] = None) -> RunPage:
        """A page of runs, newest first: 50 by default, and `limit` is at most 500. `cursor`: the `next_cursor` of the previous page.

        With `at`, the runs as they were after this event.
        """
        return RunPage.of(await self._read("runs", limit=limit, cursor=cursor, at=at))

    async def run_record(self, run_id: str) -> RunRecord:
        """The record of a run. Raises `RunNotFound`."""
        return await self._runs.get(run_id)

    async def queue(self) -> Queue:
        """The queue: turns that wait until the active run ends."""
        return Queue.of(await self._read("queue"))

    async def fork(
        self,
        thread_id: Optional[str] = None,
        *,
        at: Optional[int] = None,
        separate: bool = False,
        epoch: Optional[str] = None,
    ) -> ThreadRecord:
        """Creates a thread that begins with the events of this thread up to `at`, by default up to the tail.

        `thread_id` is a new id by default. Lists show the fork instead of this thread, unless it is `separate`.
        """
        body = {"threadId": thread_id or new_id(), "at": at, "separate": separate}
        call = Call([*self._path, "forks"], "POST", query={"epoch": epoch}, body=body, keyed=True)
        return ThreadRecord.of(await self._http.call(call))

    async def branches(self) -> List[ThreadRecord]:
        """The branches of the conversation, oldest first, this thread included."""
        return Branches.of(await self._read("branches")).branches

    async def interrupts(self) -> List[JsonObject]:
        """The open interrupts of the thread (AG-UI's Interrupt), which a run has to answer with `resume`."""
        return (await self.messages(limit=1)).interrupts

    async def put_run(self, run_id: str, events: Sequence[object], *, agent_id: Optional[str] = None, validate: bool = False) -> StartedRun:
        """Appends a complete run atomically, or does nothing if the run exists already.

        Waits up to a minute while another run is active. A TEXT_MESSAGE_CHUNK without a `messageId` gets one. With `validate`,
        an event that does not conform to AG-UI raises `InvalidEvent`, and nothing is stored.
        """
        ids = MessageIds(run_id)
        named = [ids.given(plain(event), number) for number, event in enumerate(events, 1)]
        runs = AsyncRuns(self._http, self.thread_id, validate)
        return await runs.put(run_id, named, agent_id)

    def items(self, name: str) -> AsyncItems:
        """A reference to the item list `name` of the thread. No request is made."""
        return AsyncItems(self._http, self.thread_id, name)

    def run(
        self,
        *,
        messages: Iterable[object] = (),
        tools: Iterable[object] = (),
        context: Iterable[object] = (),
        state: Any = UNSET,
        resume: Optional[Iterable[object]] = None,
        run_id: Optional[str] = None,
        agent_id: Optional[str] = None,
        lease_seconds: Optional[float] = None,
        on_existing: OnExisting = "restart",
        tools_repeatable: bool = False,
        stop: StopBy = "cancel",
        validate: Optional[bool] = None,
    ) -> AsyncRun:
        """Produces a run, in the block of `async with`. The end of the block finishes the run, and an exception fails it.

        `messages`, `tools`, `context` and `resume` are the input of the run, in AG-UI's format; messages without an id get one. `state`
        replaces the state of the thread. `run_id` is a new id by default. `lease_seconds`, from 1 to 3,600 and by default 20, is the
        time after which the server ends the run if this process has died. `tools_repeatable`: a restart may call tools again.
        `stop`: a stop request cancels the block (`cancel`), or makes its next `append` raise `StopRequested` (`flag`).

        `on_existing` decides if the run `run_id` is active already, in another call. `restart`: the previous output is superseded,
        and the body produces all of it again. `continue`: complete messages stay; only for bodies that read `run.stored`.
        `refuse`: raises `NotResumed`, and nothing is written. With `restart` and `continue` the other call can no longer write.
        A run that has ended raises `RunEnded`: see `run_once`. Raises `RunActive` if another run of the thread is active.

        The server validates the events as AG-UI, unless `validate` of the run or of the client is false. If the server refuses
        an event, the run fails with the code `invalid-event`, and the end of the block raises `InvalidEvent`.
        """
        return AsyncRun(
            self._http,
            self.thread_id,
            messages=messages,
            tools=tools,
            context=context,
            state=state,
            resume=resume,
            run_id=run_id,
            agent_id=agent_id,
            lease_seconds=lease_seconds,
            on_existing=on_existing,
            tools_repeatable=tools_repeatable,
            stop=stop,
            validate=validate,
        )

    async def run_once(self, body: Callable[[AsyncRun], Awaitable[object]], **options: Any) -> RunRecord:
        """Produces a run with `body`, unless it has ended already, and returns its record. Options are those of `run`."""
        try:
            async with self.run(**options) as run:
                await body(run)
            return run.record
        except RunEnded as ended:
            return ended.record

    async def _read(self, *path: str, **query: Any) -> Any:
        return await self._http.call(Call([*self._path, *path], query=query))
