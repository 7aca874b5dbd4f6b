"""A followed thread as an iterator: stored events, then live ones, with automatic reconnects."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from types import TracebackType
from typing import AsyncGenerator, Optional, Type

from .._calls import failing
from .._errors import Closed, ThreadlineError
from .._follow import Follow
from .._ids import segment
from .._items import Cursor, Item, Reconnecting, starting_at
from .._machine import Draw, Input, State, step
from .http import AsyncHttp
from .transports import TRANSPORTS, Following


class AsyncSubscription:
    """An iterator over the items of a thread. The first request for an item opens the connection.

    Use the iterator with `async with`, or call `aclose`, to close the connection before the end of the subscription.
    """

    def __init__(self, http: AsyncHttp, thread_id: str, cursor: Optional[Cursor], run_id: Optional[str]) -> None:
        segment(thread_id)
        cursor = starting_at(cursor)
        self._http = http
        self._follow = Follow(cursor, run_id)
        self._following = Following(http, thread_id, self._follow)
        self._machine = replace(http.known, state=State("idle"), failures=0, renewed=False)
        self._items = self._all()

    @property
    def cursor(self) -> Cursor:
        """The position of the last event that was delivered."""
        return Cursor(self._follow.at, self._follow.epoch)

    def __aiter__(self) -> AsyncSubscription:
        return self

    async def __anext__(self) -> Item:
        return await self._items.__anext__()

    async def __aenter__(self) -> AsyncSubscription:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the subscription, and its connection."""
        await self._items.aclose()

    async def _all(self) -> AsyncGenerator[Item, None]:
        self._input(Input("wanted"))
        while True:
            state = self._machine.state
            if state.name == "authorizing":
                await self._authorize()
            elif state.name in ("connecting", "open"):
                if state.name == "connecting":
                    self._following.begin()
                items = self._connected()
                try:
                    async for item in items:
                        yield item
                finally:
                    await items.aclose()
            elif state.error is not None and state.name == "waiting":
                yield Reconnecting(state.wait, state.error)
                await self._http.pause(state.wait)
                self._input(Input("timer"))
            elif state.error is not None:
                raise state.error
            elif state.name == "closed":
                raise Closed("the client was closed")
            else:
                return

    async def _authorize(self) -> None:
        try:
            await self._http.credentials.get()
        except ThreadlineError as error:
            self._input(failing(error))
        else:
            self._input(Input("authorized"))

    async def _connected(self) -> AsyncGenerator[Item, None]:
        """The items of one connection, or of one turn of it."""
        transport = TRANSPORTS[self._http.config.transports[self._machine.transport]]
        signals = transport(self._following)
        try:
            async for signal in signals:
                if isinstance(signal, Input):
                    if self._input(signal):
                        continue
                    return
                taken = self._follow.take(signal)
                if taken.progress:
                    self._input(Input("progress"))
                for item in taken.items:
                    yield item
                if taken.done:
                    self._input(Input("unwanted"))
                    return
                if taken.error is not None:
                    if not taken.error.retryable:
                        raise taken.error
                    self._input(Input("lost", taken.error))
                    return
        finally:
            await signals.aclose()

    def _input(self, input: Input) -> bool:
        """Feeds the machine; True if the connection stays."""
        if input.name == "unauthorized":
            self._http.credentials.refused(self._following.bearer)
            if not self._http.credentials.renewable:
                input = Input("refused", input.error)
        self._machine, effects = step(self._machine, input, Draw(time.monotonic(), random.random()))
        # The next subscription starts with what this one knows of the network.
        self._http.known = self._machine
        if any(effect.do == "wait" for effect in effects):
            error = self._machine.state.error
            self._http.config.logger.warning("the subscription is lost, and connects again: %s", error)
        return not any(effect.do in ("disconnect", "connect") for effect in effects)
