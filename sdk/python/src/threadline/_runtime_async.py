"""Primitives of concurrency on asyncio. `_runtime_sync` has the same ones on OS threads; only these two modules are written twice."""

from __future__ import annotations

import asyncio
import inspect
import sys
from typing import Any, Awaitable, Callable, Coroutine, Generic, List, Optional, TypeVar
from weakref import ReferenceType, ref

from ._errors import ConfigError, ConnectionFailed

T = TypeVar("T")

STOP_CANCELS = True
"""True if a stop can interrupt the body of a run."""


class Condition:
    """A condition variable. One thread runs all tasks, so the block of `async with` needs no lock: it awaits `wait` alone."""

    def __init__(self) -> None:
        self._waiting: List[asyncio.Future[None]] = []

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None

    async def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until `notify_all`, or for so many seconds. May return early."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        self._waiting.append(woken)
        timer = None if timeout is None else loop.call_later(max(0.0, timeout), _wake, woken)
        try:
            await woken
        finally:
            if timer:
                timer.cancel()
            if woken in self._waiting:
                self._waiting.remove(woken)

    def notify_all(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for woken in waiting:
                _wake(woken)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


class Event:
    """A flag that is set once."""

    def __init__(self) -> None:
        self._set = False
        self._changed = Condition()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._changed.notify_all()

    async def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits for the flag, or for so many seconds; True if it is set."""
        if not self._set:
            await self._changed.wait(timeout)
        return self._set


class Home:
    """The event loop that a client belongs to: the one of its first request. Connections and waiting tasks of another one never wake."""

    def __init__(self) -> None:
        self._loop: Optional[ReferenceType[asyncio.AbstractEventLoop]] = None

    def enter(self) -> None:
        """Raises `ConfigError` in another event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = ref(loop)
        elif self._loop() is not loop:
            raise ConfigError("an AsyncThreadline was used in two event loops: create a client in each one, or use `Threadline`")


class Worker:
    """Work beside the body of a run."""

    def __init__(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self._task = asyncio.ensure_future(work())
        if isinstance(self._task, asyncio.Task):
            self._task.set_name(name)

    async def end(self) -> None:
        """Ends the work, wherever it is."""
        self._task.cancel()
        await asyncio.wait({self._task})


class Errand(Generic[T]):
    """A request that is completed even if its caller is cancelled."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._task = asyncio.ensure_future(work())

    async def result(self) -> T:
        return await asyncio.shield(self._task)

    async def settled(self) -> Optional[T]:
        """The result of a request whose caller was cancelled; None if it has failed."""
        try:
            await asyncio.wait({self._task})
        finally:
            self._task.cancel()
        return None if self._task.cancelled() or self._task.exception() else self._task.result()


class Later:
    """Calls a function once after a while, unless it is cancelled before."""

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, act)

    def cancel(self) -> None:
        self._timer.cancel()


async def from_source(source: Callable[[], Any], timeout: float) -> Any:
    """The result of a callback, which may be asynchronous."""
    result = source()
    if not inspect.isawaitable(result):
        return result
    try:
        return await asyncio.wait_for(result, timeout)
    except asyncio.TimeoutError:
        raise ConnectionFailed("the token callback did not respond before the timeout") from None


async def insist(work: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Does something in spite of cancellations, which are for what comes after it; gives up after so many seconds."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())
    deadline = loop.time() + seconds
    while not task.done() and loop.time() < deadline:
        try:
            await asyncio.wait({task}, timeout=deadline - loop.time())
        except asyncio.CancelledError:
            pass  # the caller goes on with the cancellation that it handles already
    if not task.done():
        task.cancel()
    elif not task.cancelled():
        task.exception()


class Body:
    """The task that has entered the block of a run, which a stop cancels."""

    _OURS = "threadline: the run is to end"

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._before = _cancelling(task)
        self._cancelled = False
        self._left = False

    def cancel(self) -> None:
        """Cancels the body, once."""
        # Before Python 3.11 tasks do not count their cancellations: one that is on its way has come from outside, and wins.
        if self._left or self._cancelled or (sys.version_info < (3, 11) and _is_cancelling(self._task)):
            return
        self._cancelled = True
        self._task.cancel(self._OURS)

    async def leave(self, error: Optional[BaseException]) -> bool:
        """Called when the body has ended: True if `error` is the cancellation by `cancel`, and nobody else cancels the task.

        Raises `CancelledError` if another caller has cancelled the task.
        """
        self._left = True
        if not self._cancelled:
            return False
        if sys.version_info < (3, 11):
            if isinstance(error, asyncio.CancelledError):
                return self._is_ours(error)
            return await self._arrives()
        others = self._task.uncancel() > self._before
        if isinstance(error, asyncio.CancelledError):
            return not others
        return await self._arrives()

    async def _arrives(self) -> bool:
        """The body has ended before the cancellation has arrived, or has swallowed it."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError as late:
            ours = self._is_ours(late) if sys.version_info < (3, 11) else _cancelling(self._task) <= self._before
            if not ours:
                raise
        return False

    def _is_ours(self, error: BaseException) -> bool:
        """True if `error` is from `cancel`, and did not arrive while the body was ending because of another cancellation."""
        one: Optional[BaseException] = error
        while one is not None:
            if isinstance(one, asyncio.CancelledError) and one.args != (self._OURS,):
                return False
            one = one.__context__
        return True


def is_cancellation(error: BaseException) -> bool:
    """True for what ends the program or the task, as opposed to a failure of the body."""
    return not isinstance(error, Exception)


def _cancelling(task: asyncio.Task[Any]) -> int:
    return task.cancelling() if sys.version_info >= (3, 11) else 0


def _is_cancelling(task: Any) -> bool:
    """True if a cancellation of the task is on its way."""
    while task is not None:
        if getattr(task, "_must_cancel", False) or getattr(task, "_cancel_requested", False):
            return True
        waits_for = getattr(task, "_fut_waiter", None)
        if waits_for is None or not isinstance(waits_for, asyncio.Task):
            return waits_for is not None and (waits_for.cancelled() or getattr(waits_for, "_cancel_requested", False))
        task = waits_for
    return False
