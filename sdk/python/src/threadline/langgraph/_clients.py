"""Calls of LangGraph's classes, which have synchronous and asynchronous methods, by either kind of client."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Generic, Optional, TypeVar, Union

from .._async.client import AsyncThreadline
from .._errors import ConfigError
from .._sync.client import Threadline

Client = Union[Threadline, AsyncThreadline]
S = TypeVar("S")
A = TypeVar("A")


class Calls(Generic[S, A]):
    """An object whose methods call the server, in a synchronous and an asynchronous form.

    With a synchronous client, the asynchronous form makes each call in an OS thread. With an asynchronous client there is no
    synchronous form, because the client belongs to an event loop.
    """

    def __init__(self, client: object, synchronous: Callable[[Threadline], S], asynchronous: Callable[[AsyncThreadline], A]) -> None:
        self._sync: Optional[S] = None
        if isinstance(client, AsyncThreadline):
            self.asynchronous: Any = asynchronous(client)
        elif isinstance(client, Threadline):
            self._sync = synchronous(client)
            self.asynchronous = _InThreads(self._sync)
        else:
            raise ConfigError(f"client is a {type(client).__name__}: pass a Threadline or an AsyncThreadline")

    @property
    def synchronous(self) -> S:
        if self._sync is None:
            raise ConfigError("an AsyncThreadline has no synchronous calls: use await, or pass a Threadline, which has both")
        return self._sync


class _InThreads:
    """The methods of a synchronous object, as asynchronous ones."""

    def __init__(self, synchronous: object) -> None:
        self._synchronous = synchronous

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._synchronous, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            return await asyncio.to_thread(method, *arguments, **options)

        return call
