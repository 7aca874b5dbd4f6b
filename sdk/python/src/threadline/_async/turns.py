"""Places of event streams: where there are more subscriptions than concurrent streams, they take turns."""

from __future__ import annotations

import time
from collections import deque
from typing import Callable, Deque, List, Optional

from .._errors import Closed
from .._limits import OPEN_TIMEOUT, TURN
from .._runtime_async import Condition


class Place:
    """A place of a stream among the concurrent ones."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        self.moved = False
        """True once the stream has delivered something: before that its turn is not over."""
        self.over = False
        """True once somebody else has the place."""
        self.cut: Optional[Callable[[], None]] = None
        """Ends the stream, for a reader that waits for it."""


class AsyncTurns:
    """Grants a bounded number of places in the order of the requests, so that every subscription has a turn."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken: List[Place] = []
        self._queue: Deque[object] = deque()
        self._changed = Condition()
        self._closed = False

    @property
    def crowded(self) -> bool:
        """True if a stream waits."""
        return bool(self._queue)

    def close(self) -> None:
        self._closed = True
        self._changed.notify_all()

    async def take(self) -> Place:
        """Waits for a place."""
        async with self._changed:
            ticket = object()
            self._queue.append(ticket)
            try:
                while len(self._taken) >= self._places or self._queue[0] is not ticket:
                    if self._closed:
                        raise Closed("the client was closed")
                    wait = self._end_a_turn() if self._queue[0] is ticket else None
                    if len(self._taken) >= self._places or self._queue[0] is not ticket:
                        await self._changed.wait(wait)
                place = Place()
                self._taken.append(place)
                return place
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()

    async def leave(self, place: Place) -> None:
        async with self._changed:
            if place in self._taken:
                self._taken.remove(place)
            self._changed.notify_all()

    def _end_a_turn(self) -> Optional[float]:
        """Ends the oldest turn if it has lasted long enough; otherwise returns the seconds until then.

        The place is free at once: the consumer of that stream may be busy elsewhere, and notices when it reads again.
        """
        now = time.monotonic()
        ends = [(place.since + (TURN if place.moved else OPEN_TIMEOUT), place) for place in self._taken if place.cut]
        if not ends:
            return TURN
        at, place = min(ends, key=lambda end: end[0])
        if at > now:
            return at - now
        place.over = True
        self._taken.remove(place)
        if place.cut:
            place.cut()
        return None
