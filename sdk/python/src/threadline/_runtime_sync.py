"""Primitives of concurrency on OS threads, the same ones as `_runtime_async` has on asyncio."""

from __future__ import annotations

import threading
from typing import Any, Callable, Generic, Optional, TypeVar

from ._errors import ConfigError
from ._limits import WORKER_JOIN

T = TypeVar("T")

STOP_CANCELS = False
"""True if a stop can interrupt the body of a run."""


class Condition:
    """A condition variable: the block of `with` has its lock."""

    def __init__(self) -> None:
        self._condition = threading.Condition()

    def __enter__(self) -> None:
        self._condition.acquire()

    def __exit__(self, *_: object) -> None:
        self._condition.release()

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until `notify_all`, or for so many seconds. May return early."""
        self._condition.wait(None if timeout is None else max(0.0, timeout))

    def notify_all(self) -> None:
        with self._condition:
            self._condition.notify_all()


class Event:
    """A flag that is set once."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        self._event.set()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits for the flag, or for so many seconds; True if it is set."""
        return self._event.wait(timeout)


class Home:
    """A synchronous client belongs to no event loop, and OS threads may share it."""

    def enter(self) -> None:
        pass


class Worker:
    """Work beside the body of a run."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Waits for the end of the work, which a flag of the caller has requested."""
        if self._thread is not threading.current_thread():
            self._thread.join(WORKER_JOIN)


class Errand(Generic[T]):
    """A request. An interrupt of the program breaks it off."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work

    def result(self) -> T:
        return self._work()

    def settled(self) -> Optional[T]:
        """The result of a request whose caller was interrupted: unknown."""
        return None


class Later:
    """Calls a function once after a while, unless it is cancelled before."""

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        self._timer = threading.Timer(seconds, act)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        self._timer.cancel()


def from_source(source: Callable[[], Any], timeout: float) -> Any:
    """The result of a callback."""
    result = source()
    if hasattr(result, "__await__"):
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise ConfigError("the token callback of a synchronous client must be synchronous: use AsyncThreadline")
    return result


def insist(work: Callable[[], None], seconds: float) -> None:
    """Does something whose failure changes nothing; `work` itself keeps to the time."""
    try:
        work()
    except Exception:
        pass


class Body:
    """The thread that has entered the block of a run. Threads cannot be cancelled: `append` tells of a stop."""

    def cancel(self) -> None:
        return None

    def leave(self, error: Optional[BaseException]) -> bool:
        return False


def is_cancellation(error: BaseException) -> bool:
    """True for what ends the program, as opposed to a failure of the body."""
    return not isinstance(error, Exception)
