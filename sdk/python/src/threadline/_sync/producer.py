"""A run from the side of its producer: numbers its events, appends them exactly once, extends its lease, ends it."""

from __future__ import annotations

import logging
import math
import time
from typing import Any, Callable, List, Optional, Sequence

from .._batches import Pending, is_over, is_terminal, type_of
from .._errors import Closed, ConfigError, StopRequested, ThreadlineError
from .._json import JsonObject
from .._limits import BEAT_MAX, FAILED_BEAT
from .._message_ids import MessageIds
from .._records import RunRecord, StartedRun
from .._runtime_sync import STOP_CANCELS, Condition, Event, Worker
from .._sent import Sent
from ..problems import ProducerSeqGap, RunFenced, RunNotFound
from .runs import Runs


class Producer:
    """An active run.

    The body of the run and two workers share it, in the synchronous client as threads: what they share changes under
    `_changed`, and no request is made under it.
    """

    def __init__(
        self, runs: Runs, thread_id: str, taken: StartedRun, again: Callable[[], str], lease: float, logger: logging.Logger
    ) -> None:
        run = taken.run
        self.thread_id = thread_id
        self.run_id = run.run_id
        self.attempt = taken.attempt
        self.epoch = taken.epoch
        self.cursor = taken.cursor
        self.failure: Optional[BaseException] = None
        """The reason for which the run cannot continue."""
        self.refused: Optional[ConfigError] = None
        """The reason for which an event was refused. Such a run cannot be finished, so that no event is lost silently."""
        self.stop_requested = run.stop_requested
        self.on_end: Callable[[], None] = lambda: None
        """Called once further work is pointless: a stop was requested, or the run cannot continue."""
        self._runs = runs
        self._attempt_id = taken.attempt_id
        self._taken_up = taken.taken_up
        self._again = again
        self._logger = logger
        self._lease = lease
        self._beat_every = min(lease / 3, BEAT_MAX)
        self._ids = MessageIds(run.run_id)
        self._next = run.producer_seq + 1
        self._acknowledged = run.producer_seq
        self._first = self._next
        self._sent = Sent(self._next)
        # Acknowledged events that the server has lost: they are sent before the pending ones.
        self._lost: List[str] = []
        self._pending = Pending()
        self._terminal = False
        self._sending = False
        self._ending = False
        self._released = Event()
        self._sender_gone = False
        # The lease of a run that was taken up may be about to expire.
        self._heard_at = -math.inf if taken.taken_up else time.monotonic()
        self._changed = Condition()
        self._workers: List[Worker] = []

    def begin(self) -> None:
        """Begins to send, and to extend the lease."""
        self._workers = [Worker("threadline-sender", self._send), Worker("threadline-heartbeat", self._beat)]

    def append(self, events: Sequence[JsonObject], *, told: bool = True) -> None:
        """Queues events; waits while there is no room. With `told`, raises `StopRequested` where a stop cannot cancel the body."""
        with self._changed:
            self._check(told)
            if self._terminal:
                raise Closed("the run has ended with its terminal event")
            number = self._next + len(self._lost) + self._pending.count
            try:
                fresh = [event for event in events if not self._is_opening(event)]
                ends = any(map(is_terminal, fresh))
                # An end would hide that something is missing before it.
                if ends and self.refused is not None:
                    raise self.refused
                self._pending.add([self._ids.given(event, number + at) for at, event in enumerate(fresh)])
            except ConfigError as error:
                self.refused = self.refused or error
                raise
            self._terminal = ends
            self._changed.notify_all()
            while self._pending.is_full and self.failure is None and not self._released.is_set():
                self._changed.wait()
            self._check(False)

    def refuse(self, error: ConfigError) -> ConfigError:
        """Notes the error of a call that appends nothing, which is to be raised."""
        self.refused = self.refused or error
        return error

    def _is_opening(self, event: JsonObject) -> bool:
        """True for the RUN_STARTED of this run, which is in the log since the run began."""
        if type_of(event) != "RUN_STARTED":
            return False
        named = (event.get("threadId", self.thread_id), event.get("runId"))
        if named == (self.thread_id, self.run_id):
            return True
        raise ConfigError(
            f"RUN_STARTED names the run {named[1]} of {named[0]}, and this is the run {self.run_id} of {self.thread_id}: leave it"
            " out, since the log has that of this run"
        )

    def flush(self, within: Optional[float] = None) -> None:
        """Waits until all appended events are durable, or for so many seconds."""
        deadline = None if within is None else time.monotonic() + within
        with self._changed:
            self._check(False)
            while (self._pending.count or self._lost) and not self._sender_gone:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return
                self._changed.wait(left)
                self._check(False)
        # The end of an event loop cancels the sender before the body.
        while self._pending.count or self._lost:
            self._send_batch()
        if self.refused is not None:
            raise self.refused

    def finish(self) -> RunRecord:
        """Ends the run as finished, unless its own events have ended it. Pending events are sent first."""
        while True:
            try:
                self.flush()
                self._ending = True
                ended = self._finished()
                if ended is not None:
                    return ended
            except RunFenced:
                if not self.stop_requested:
                    raise
                # The server has already ended the run, since the requested stop took too long.
                record = self._runs.get(self.run_id)
                if record.ended_at is None:
                    raise
                return record
            except ThreadlineError as error:
                if not self._ending or not self._heal(error):
                    raise
            self._ending = False

    def _finished(self) -> Optional[RunRecord]:
        """Ends the run; None if the server has lost events, which have to be sent before."""
        if not self._terminal:
            return self._runs.finish(self.run_id, self.attempt, self._acknowledged)
        record = self._runs.get(self.run_id)
        if record.ended_at is not None or record.producer_seq >= self._acknowledged:
            return record
        self._rewind(record.producer_seq + 1)
        return None

    def fail(self, code: str, message: str, within: Optional[float] = None) -> Optional[RunRecord]:
        """Ends the run as failed. Pending events are sent first, if possible. None if the run could not be ended: its lease will."""
        deadline = None if within is None else time.monotonic() + within
        try:
            self.flush(within)
        except Exception:
            pass  # the first error is the one that counts
        self._ending = True
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            return self._runs.fail(self.run_id, self.attempt, code, message, retry_for=left)
        except ThreadlineError as error:
            self._logger.warning("the run %s could not be ended as failed, its lease will end it: %s", self.run_id, error)
            return None

    def release(self) -> None:
        """Called when nobody works on the run any more: ends the workers."""
        self._ending = True
        self._released.set()
        with self._changed:
            self._changed.notify_all()
        for worker in self._workers:
            worker.end()

    def _check(self, told: bool) -> None:
        if self.failure is not None:
            raise self.failure
        if self._released.is_set():
            raise Closed("the run has ended")
        if told and self.stop_requested:
            raise StopRequested("the run was asked to stop")

    def _send(self) -> None:
        """Sends one request after the other, each with the events that were queued during the one before."""
        try:
            while not self._released.is_set() and self.failure is None:
                with self._changed:
                    while not (self._pending.count or self._lost) and not self._released.is_set() and self.failure is None:
                        self._changed.wait()
                    if self._released.is_set() or self.failure is not None:
                        return
                self._send_batch()
        except Exception as error:
            self._failed(error)
        finally:
            self._sender_gone = True
            self._changed.notify_all()

    def _send_batch(self) -> None:
        with self._changed:
            while self._sending:
                self._changed.wait()
            again = bool(self._lost)
            batch = Pending.first(self._lost) if again else self._pending.batch()
            if not batch:
                return
            number = self._next
            self._sending = True
        try:
            sent_at = time.monotonic()
            appended = self._runs.append(self.run_id, self.attempt, number, batch)
            with self._changed:
                self._heard_at = max(self._heard_at, sent_at)
                self.epoch = appended.epoch
                if again:
                    del self._lost[: len(batch)]
                else:
                    self._pending.drop(batch)
                self._sent.add(batch)
                self._next += len(batch)
                self._acknowledged = max(self._acknowledged, appended.producer_seq)
            if appended.stop_requested:
                self._stop()
        except ThreadlineError as error:
            if not self._heal(error):
                raise
        finally:
            self._sending = False
            self._changed.notify_all()

    def _heal(self, error: ThreadlineError) -> bool:
        """Handles a refusal that a loss of events at the server explains: what it has lost is queued again.

        False if the error has another cause. Raises if the lost events are not kept any more.
        """
        if isinstance(error, ProducerSeqGap):
            expected = error.problem.get("expected")
            if not isinstance(expected, int) or expected > self._acknowledged:
                return False
            self._rewind(expected)
            return True
        if not isinstance(error, RunNotFound) or not self._runs.is_known(self.epoch, self.cursor):
            return False
        # The whole run is lost, and its thread is not. Words of an attempt before were never here.
        if self._taken_up or self._sent.first > self._first:
            raise self._cannot_heal(1) from error
        # Another process that has begun the run again in the meantime keeps it.
        started = self._runs.begin(self._again())
        if started.run.ended_at is not None or started.taken_up or started.attempt_id != self._attempt_id:
            return False
        # The first attempt of the run in a later generation of the store has another number.
        self.attempt = started.attempt
        self.epoch, self.cursor = started.epoch, started.cursor
        if started.run.producer_seq < self._acknowledged:
            self._rewind(started.run.producer_seq + 1)
        return True

    def _rewind(self, producer_seq: int) -> None:
        """Queues the acknowledged events from this producerSeq on again."""
        with self._changed:
            if producer_seq < self._sent.first:
                raise self._cannot_heal(producer_seq)
            self._lost[:0] = self._sent.take_from(producer_seq)
            self._next = producer_seq
            self._acknowledged = producer_seq - 1
            self._changed.notify_all()

    def _cannot_heal(self, first: int) -> Closed:
        return Closed(
            f"the server has lost events of the run {self.run_id} from producerSeq {first} on, and this producer keeps its events"
            f" only from producerSeq {self._sent.first} on: start another run"
        )

    def _stop(self) -> None:
        if not self.stop_requested:
            self.stop_requested = True
            self.on_end()

    def _failed(self, error: BaseException) -> None:
        with self._changed:
            self.failure = self.failure or error
            self._changed.notify_all()
        self.on_end()

    def _beat(self) -> None:
        """Extends the lease while nothing is appended."""
        wait = 0.0 if self._heard_at < 0 else self._beat_every
        while True:
            slept_at = time.monotonic()
            if self._released.wait(wait) or self.failure is not None:
                return
            late = time.monotonic() - slept_at - wait
            if late > self._lease:
                blocked = "the event loop was blocked" if STOP_CANCELS else "this process was held up"
                self._logger.warning(
                    "%s for %.1f s, longer than the lease of the run %s (%.0f s): in its body, or raise lease_seconds",
                    blocked,
                    late,
                    self.run_id,
                    self._lease,
                )
            silent = time.monotonic() - self._heard_at
            # The terminal event was appended, or the run is being ended: it needs no lease any more.
            if self._terminal or self._ending:
                wait = self._beat_every
            elif silent < self._beat_every:
                wait = self._beat_every - silent
            else:
                wait = self._say_alive()

    def _say_alive(self) -> float:
        """Sends a heartbeat; returns the seconds until the next one."""
        sent_at = time.monotonic()
        acknowledged = self._acknowledged
        try:
            # A heartbeat that hangs must not outlast the lease.
            record = self._runs.heartbeat(self.run_id, self.attempt, self._lease, self._lease / 3)
            self._heard_at = max(self._heard_at, sent_at)
            if record.stop_requested:
                self._stop()
            if record.ended_at is not None and not self._ending:
                raise Closed(f"the run has ended: {record.status}")
            if record.producer_seq < acknowledged:
                self._send_lost(lambda: self._rewind(record.producer_seq + 1))
        except ThreadlineError as error:
            if self._ending or self._terminal or self._released.is_set():
                return self._beat_every
            if isinstance(error, RunNotFound):
                failure = error
                self._send_lost(lambda: self._healed(failure))
            elif not error.retryable:
                self._failed(error)
            else:
                return min(self._beat_every, max(FAILED_BEAT, error.retry_after or 0))
        return self._beat_every

    def _send_lost(self, queue: Callable[[], Any]) -> None:
        """Queues again what a heartbeat has found to be lost. An append in flight finds the loss by itself."""
        with self._changed:
            if self._sending or self._ending:
                return
            self._sending = True
        try:
            queue()
        except ThreadlineError as error:
            self._failed(error)
        finally:
            self._sending = False
            self._changed.notify_all()

    def _healed(self, error: ThreadlineError) -> None:
        if not self._heal(error):
            raise error


__all__ = ["Producer", "is_over"]
