"""The feed of a user's threads as an iterator: each change of a thread, by long-polling."""

from __future__ import annotations

import time
from collections import deque
from typing import Deque, Optional

from .._calls import Call
from .._items import Cursor, starting_at
from .._limits import OPEN_TIMEOUT, POLL, POLL_PAUSE, TURN
from .._records import FeedEntry, FeedPage
from .http import Http


class Feed:
    """An endless iterator over the changes of a user's threads.

    The feed keeps the newest change of each thread: a reader that was away receives each changed thread once. The
    iterator needs no closing.
    """

    def __init__(self, http: Http, cursor: Optional[Cursor], user_id: Optional[str]) -> None:
        cursor = starting_at(cursor)
        self._http = http
        self._user_id = user_id
        self._at = cursor.after
        self._epoch = cursor.epoch
        self._entries: Deque[FeedEntry] = deque()
        # Position up to which pages were read.
        self._read = cursor.after
        self._waits = False

    @property
    def cursor(self) -> Cursor:
        """The position of the last entry that was delivered."""
        return Cursor(self._at, self._epoch)

    def __iter__(self) -> Feed:
        return self

    def __next__(self) -> FeedEntry:
        while not self._entries:
            self._page()
        entry = self._entries.popleft()
        self._at = entry.cursor
        return entry

    def _page(self) -> None:
        """Reads the next page. After the last page, the request waits at the server for the next change."""
        place = self._http.turns.take()
        try:
            wait = 0.0 if not self._waits else TURN if self._http.turns.crowded else POLL
            query = {"after": self._read, "epoch": self._epoch, "wait": int(wait), "userId": self._user_id}
            call = Call(["feed"], query=query, timeout=wait + OPEN_TIMEOUT, retry_for=float("inf"))
            began = time.monotonic()
            page = FeedPage.of(self._http.call(call))
        finally:
            self._http.turns.leave(place)
        # The server has lost changes, but none that were delivered here; or the feed has its first entry.
        self._epoch = page.epoch
        self._read = max(self._read, page.cursor)
        self._entries.extend(page.entries)
        self._waits = not page.has_more
        if not page.entries:
            self._at = self._read
            # An intermediary prevents the server from waiting.
            if wait > 0 and time.monotonic() - began < wait / 2:
                self._http.pause(POLL_PAUSE)
