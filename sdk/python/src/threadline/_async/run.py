"""A run from start to end, around the block that produces it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Dict, Iterable, List, Optional, Sequence, Type

from .._errors import Closed, ConfigError, NotResumed, RunEnded, StopRequested, ThreadlineError
from .._ids import new_id
from .._json import JsonObject, to_json
from .._limits import CANCEL_TIMEOUT, DEFAULT_LEASE, MAX_FAILURE_CHARS, MAX_LEASE
from .._opening import opening_of
from .._records import RunRecord, StartedRun
from .._runtime_async import STOP_CANCELS, Body, Errand, insist, is_cancellation
from .._stored import Stored
from ..problems import InvalidEvent, RecoveryTooLarge, RecoveryUnsafe
from .http import AsyncHttp
from .producer import AsyncProducer, is_over
from .reading import AsyncReading
from .runs import AsyncRuns
from .writers import AsyncWriters, Interrupted

_ON_EXISTING = {"restart": "restart", "continue": "continue", "refuse": "return"}
"""Member `onExisting` of the request, for each `on_existing`."""


class AsyncRun(AsyncWriters):
    """A run that this program produces: see `AsyncThread.run`."""

    def __init__(
        self,
        http: AsyncHttp,
        thread_id: str,
        *,
        messages: Iterable[object],
        tools: Iterable[object],
        context: Iterable[object],
        state: Any,
        resume: Optional[Iterable[object]],
        run_id: Optional[str],
        agent_id: Optional[str],
        lease_seconds: Optional[float],
        on_existing: str,
        tools_repeatable: bool,
        stop: str,
        validate: Optional[bool],
    ) -> None:
        super().__init__()
        self._lease = DEFAULT_LEASE if lease_seconds is None else lease_seconds
        if not 1 <= self._lease <= MAX_LEASE:
            raise ConfigError(f"lease_seconds must be a number from 1 to {MAX_LEASE:.0f}, not {lease_seconds}")
        if on_existing not in _ON_EXISTING:
            raise ConfigError(f"on_existing must be one of {', '.join(_ON_EXISTING)}, not {on_existing!r}")
        if stop not in ("cancel", "flag"):
            raise ConfigError(f"stop must be cancel or flag, not {stop!r}")
        self.thread_id = thread_id
        self.run_id = run_id or new_id()
        self.stored = Stored()
        """The output of the attempts before: with `continue` the part that was kept, with `restart` the part that was superseded."""
        self.resumed = False
        """True if an attempt before this one has begun the run."""
        self._http = http
        self._runs = AsyncRuns(http, thread_id, http.config.validate if validate is None else validate)
        self._on_existing = on_existing
        self._cancels = STOP_CANCELS and stop == "cancel"
        # One for each call: by it the server knows a repetition of the request, after a lost answer.
        self._attempt_id = new_id()
        start: Dict[str, Any] = {
            "runId": self.run_id,
            "agentId": agent_id,
            "leaseSeconds": int(self._lease),
            "attemptId": self._attempt_id,
            "onExisting": _ON_EXISTING[on_existing],
            "toolsRepeatable": tools_repeatable,
        }
        events = opening_of(thread_id, self.run_id, messages=messages, tools=tools, context=context, resume=resume, state=state)
        self._start = {**start, "events": events}
        self._request = to_json(self._start)
        self._record: Optional[RunRecord] = None
        self._began: Optional[AsyncProducer] = None
        self._reading: Optional[AsyncReading] = None
        self._history: Optional[List[JsonObject]] = None
        self._body: Optional[Body] = None

    @property
    def record(self) -> RunRecord:
        """The record of the run: after the block, as it has ended (`record.status`); before, as it began."""
        if self._record is None:
            raise Closed("the run has not begun: enter its block first")
        return self._record

    @property
    def attempt(self) -> int:
        """Number of the attempt. Numbers of attempts grow, not always by one."""
        return self._producer.attempt

    @property
    def epoch(self) -> str:
        """The epoch of the thread's log."""
        return self._producer.epoch

    @property
    def cursor(self) -> int:
        """A reader that starts from this seq and `epoch` receives this run and nothing before it."""
        return self._producer.cursor

    @property
    def stop_requested(self) -> bool:
        """True once a stop of the run was requested."""
        return self._producer.stop_requested

    async def history(self) -> List[JsonObject]:
        """The messages of the thread before the run, and those that the run began with, in AG-UI's format. The first call reads them."""
        if self._reading is None:
            raise Closed("the run has not begun: enter its block first")
        if self._history is None:
            self._history = await self._reading.history()
        return self._history

    async def flush(self) -> None:
        """Returns when all appended events are durable. Raises the error of the append that failed."""
        await self._producer.flush()

    @property
    def _producer(self) -> AsyncProducer:
        if self._began is None:
            raise Closed("the run has not begun: enter its block first")
        return self._began

    async def _append(self, events: Sequence[JsonObject], *, told: bool = True) -> None:
        await self._producer.append(events, told=told and not self._cancels)

    def _refuse(self, error: ConfigError) -> ConfigError:
        return self._producer.refuse(error)

    async def __aenter__(self) -> AsyncRun:
        if self._record is not None:
            raise Closed("the run has begun already: call run() again")
        taken = await self._taken()
        self._record = taken.run
        if taken.run.ended_at is not None:
            raise RunEnded(taken.run)
        reading = self._reading = AsyncReading(self._http, self.thread_id, taken)
        if taken.attempt_id != self._attempt_id:
            raise await self._not_resumed(taken, reading)
        producer = AsyncProducer(self._runs, self.thread_id, taken, self._again, self._lease, self._http.config.logger)
        producer.begin()
        try:
            stored = await reading.before(self._on_existing)
        except BaseException as error:
            await self._give_up(producer, error)
            await producer.release()
            raise
        self._began = producer
        self.stored, self.resumed = stored or Stored(), stored is not None
        if self._cancels:
            self._body = Body()
            producer.on_end = self._body.cancel
            if producer.stop_requested or producer.failure is not None:
                self._body.cancel()
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> bool:
        producer = self._producer
        try:
            return await self._leave(producer, error)
        finally:
            await producer.release()

    async def _leave(self, producer: AsyncProducer, error: Optional[BaseException]) -> bool:
        """Ends the run as its body has ended. True if `error` is swallowed."""
        try:
            cancelled_here = self._body is not None and await self._body.leave(error)
            if cancelled_here and not producer.stop_requested and producer.failure is not None:
                # The run cannot continue, and the body was cancelled for that reason alone.
                raise producer.failure
            stopped = isinstance(error, StopRequested) and producer.stop_requested
            interrupted = isinstance(error, Interrupted) and error.run is self
            if error is None or cancelled_here or stopped or interrupted:
                await self._end_parts_of(producer)
                self._record = await producer.finish()
                return error is not None
            if isinstance(error, Exception) and producer.stop_requested:
                # After a stop request, an error is a way for the body to end; the error propagates to its caller nevertheless.
                self._record = await producer.finish()
                return False
        except BaseException as failure:
            await self._give_up(producer, failure)
            raise
        await self._give_up(producer, error)
        return False

    async def _end_parts_of(self, producer: AsyncProducer) -> None:
        """Ends what is open, unless the run's own events have ended it."""
        try:
            await self._end_parts()
        except Closed:
            if producer.failure is not None:
                raise

    async def _give_up(self, producer: AsyncProducer, error: BaseException) -> None:
        """Ends the run as failed, so that it does not wait for its lease. The caller needs the first error."""
        if is_over(error):
            return
        if is_cancellation(error):
            said = "the program that produces the run was cancelled"
            await insist(lambda: self._failed(producer, "producer-cancelled", said, CANCEL_TIMEOUT), CANCEL_TIMEOUT)
        else:
            said = error.detail if isinstance(error, InvalidEvent) else str(error)
            code = error.slug if isinstance(error, InvalidEvent) else "producer-failed"
            await self._failed(producer, code, (said or type(error).__name__)[:MAX_FAILURE_CHARS], None)

    async def _failed(self, producer: AsyncProducer, code: str, message: str, within: Optional[float]) -> None:
        record = await producer.fail(code, message, within)
        if record is not None:
            self._record = record

    async def _taken(self) -> StartedRun:
        """Starts the run, or takes it up."""
        start = Errand(lambda: self._runs.begin(self._request))
        try:
            return await start.result()
        except (RecoveryUnsafe, RecoveryTooLarge) as error:
            await self._refused(error)
            raise
        except BaseException as error:
            if is_cancellation(error):
                await insist(lambda: self._undone(start), CANCEL_TIMEOUT)
            raise

    async def _refused(self, error: ThreadlineError) -> None:
        """Ends a run that cannot be taken up, so that it does not wait for its lease, and readers see the reason."""
        try:
            record = await self._runs.get(self.run_id)
            if record.ended_at is None:
                code = getattr(error, "slug", "recovery-unsafe")
                await self._runs.fail(self.run_id, record.attempt, code, getattr(error, "detail", ""))
        except ThreadlineError:
            pass  # the caller needs the refusal itself

    async def _undone(self, start: Errand[StartedRun]) -> None:
        """Ends the run if its start has reached the server before it was cancelled."""
        taken = await start.settled()
        try:
            if taken is None:
                taken = await self._found()
            if taken is not None and taken.attempt_id == self._attempt_id and taken.run.ended_at is None:
                said = "the program that produces the run was cancelled"
                await self._runs.fail(self.run_id, taken.attempt, "producer-cancelled", said, retry_for=0)
        except ThreadlineError:
            pass  # the lease ends it

    async def _found(self) -> Optional[StartedRun]:
        """The run that a broken request has started, as far as is known."""
        if (await self._runs.get(self.run_id, retry_for=0)).ended_at is not None:
            return None
        return await self._runs.begin(self._again(), retry_for=0)

    def _again(self) -> str:
        """The request that starts the run again if the server has lost it, or tells whose it is: it takes the run from nobody."""
        return to_json({**self._start, "onExisting": "return"})

    async def _not_resumed(self, taken: StartedRun, reading: AsyncReading) -> NotResumed:
        run = taken.run
        why = (
            f"the run {run.run_id} is active in its attempt {run.attempt}: nothing was written. Wait for its end, or take it up"
            ' with on_existing="restart" or "continue"'
        )
        return NotResumed(why, run, await reading.stored(run.last_seq))
