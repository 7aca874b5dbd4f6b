"""Reads of the log of a run, and of the log before it."""

from __future__ import annotations

from typing import Any, Generator, List, Optional

from .._calls import Call
from .._json import JsonObject
from .._limits import TAKEOVER_EVENTS
from .._records import StartedRun
from .._stored import Messages, Stored
from .http import Http

_ATTEMPT = "threadline.attempt"
"""Name of the CUSTOM event by which the server names an attempt."""


class Reading:
    """Reads for the producer of a run."""

    def __init__(self, http: Http, thread_id: str, taken: StartedRun) -> None:
        self._http = http
        self._path = ["threads", thread_id]
        self._taken = taken

    def history(self) -> List[JsonObject]:
        """The messages of the thread before the run, and those with which it began, oldest first."""
        # The first event of the run brings its messages.
        at = min(self._taken.run.first_seq, self._taken.run.last_seq)
        messages: List[JsonObject] = []
        if at > 0:
            for page in self._pages(at):
                messages[:0] = page.messages
        return messages

    def before(self, on_existing: str) -> Optional[Stored]:
        """The output of the attempts before; None if there were none."""
        if not self._taken.taken_up:
            return None
        return self.stored(self._taken.run.last_seq if on_existing == "continue" else self._superseded_up_to())

    def stored(self, at: int) -> Stored:
        """The output of the run up to an event: its own messages, and the state of the thread after them."""
        before = self._taken.run.first_seq - 1
        if at <= before:
            return Stored(state=self._state(before))
        last = (self._page(before, limit=1)).messages if before > 0 else []
        messages: List[JsonObject] = []
        interrupts: Optional[List[JsonObject]] = None
        for page in self._pages(at):
            if interrupts is None:
                interrupts = page.interrupts
            ids = [message["id"] for message in page.messages]
            if last and last[0]["id"] in ids:
                messages[:0] = page.messages[len(ids) - ids[::-1].index(last[0]["id"]) :]
                break
            messages[:0] = page.messages
        return Stored(messages, self._state(at), interrupts or [])

    def _superseded_up_to(self) -> int:
        """Seq of the last event that was superseded when the run was restarted."""
        run = self._taken.run
        query = {"before": run.last_seq + 1, "epoch": self._taken.epoch, "limit": TAKEOVER_EVENTS}
        page = self._http.call(Call([*self._path, "events"], query=query))
        for logged in reversed(page["events"]):
            event = logged["event"]
            if event["type"] == "CUSTOM" and event.get("name") == _ATTEMPT:
                value = event.get("value") or {}
                superseded = value.get("superseded")
                if value.get("attempt") == self._taken.attempt and superseded:
                    return int(superseded[1])
                break
        # An attempt without output leaves nothing to supersede.
        return run.last_seq

    def _state(self, at: int) -> Any:
        if at <= 0:
            return {}
        query = {"at": at, "epoch": self._taken.epoch}
        return (self._http.call(Call([*self._path, "state"], query=query)))["state"]

    def _pages(self, at: int) -> Generator[Messages, None, None]:
        """The messages of the thread after an event, in pages, newest first."""
        page = self._page(at)
        while True:
            yield page
            if not page.has_more or not page.messages:
                return
            page = self._page(at, before=page.messages[0]["id"])

    def _page(self, at: int, **query: Any) -> Messages:
        call = Call([*self._path, "messages"], query={"at": at, "epoch": self._taken.epoch, **query})
        return Messages.of(self._http.call(call))
