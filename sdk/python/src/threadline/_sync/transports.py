"""Transports of readers: one event stream, or one waiting request after the other."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Generator, Callable, Dict, List, Mapping, Optional, Union

import httpx

from .._calls import Call, failing, is_answer, lost
from .._closing import closing
from .._errors import Closed, ConnectionFailed, ProblemError, ProtocolError, ThreadlineError, Timeout, problem_error
from .._follow import Follow, Frame, batches_of
from .._json import JsonObject
from .._limits import OPEN_TIMEOUT, POLL, POLL_PAUSE, TURN
from .._lines import EventParser, StreamEvent, parse_object
from .._machine import Input
from .._runtime_sync import Later
from .._socket import shut
from ..problems import ThreadNotFound
from .http import Http
from .turns import Place

Signal = Union[Frame, Input]
"""Output of a transport: frames for the cursor, and inputs of the state machine of the connection."""


class Following:
    """State that the turns of one connection share."""

    def __init__(self, http: Http, thread_id: str, follow: Follow) -> None:
        self.http = http
        self.thread_id = thread_id
        self.follow = follow
        self.bearer: Optional[str] = None
        """The credential of the connection."""
        self.greeted = False
        self.live = False
        self.begin()

    def begin(self) -> None:
        """A new connection, of any transport."""
        self.greeted = self.live = False
        self.follow.begin()

    def call(self, **query: Any) -> Call:
        members = {"after": self.follow.at, "epoch": self.follow.epoch, "runId": self.follow.run_id, **query}
        return Call(["threads", self.thread_id, "events"], query=members)

    def tell(self, name: str, body: Mapping[str, Any]) -> List[Signal]:
        """The signals of a frame; those that another turn of the connection has brought already are left out."""
        if name == "hello":
            again = self.greeted and body["epoch"] == self.follow.epoch
            self.greeted = True
            return [] if again else [Frame(name, body)]
        if name in ("caughtUp", "fellBehind"):
            was, self.live = self.live, name == "caughtUp"
            return [] if was and self.live else [Frame(name, body)]
        return [Frame(name, body)]

    def refused(self, error: ThreadlineError) -> Input:
        """A response of the server that refuses the subscription. A final one ends it."""
        error = self.http.on_the_way(error)
        if isinstance(error, ProblemError) and not error.retryable and error.status != 401:
            raise error
        return failing(error)

    def diagnose(self, otherwise: Input) -> Input:
        """Finds out why a transport does not work: if an ordinary request succeeds, the transport is the cause."""
        try:
            self.http.once(Call(["socket-tickets"], "POST", timeout=OPEN_TIMEOUT))
            same = self.http.credentials.get() == self.bearer
            # The request may have renewed an expired credential.
            return otherwise if same else Input("unauthorized", otherwise.error)
        except ThreadlineError as error:
            return failing(self.http.on_the_way(error))


_NAMES = {"caught_up": "caughtUp", "fell_behind": "fellBehind"}
"""Names of events of a stream that the socket spells otherwise."""


class _Stream:
    """The state of one turn with an event stream."""

    def __init__(self, following: Following, place: Place) -> None:
        self.following = following
        self.place = place
        self.parser = EventParser()
        self.open_at: Optional[float] = None
        self.heard_at = 0.0
        self._fresh: List[JsonObject] = []

    @property
    def gets_through(self) -> bool:
        """True if the stream has delivered data for a while. Before that, an intermediary may be what ends it."""
        return self.open_at is not None and self.heard_at - self.open_at > OPEN_TIMEOUT

    def broken(self, error: ThreadlineError) -> Input:
        return Input("lost" if self.gets_through else "blocked", error)

    def take(self, chunk: bytes) -> List[Signal]:
        self.heard_at = time.monotonic()
        comments = self.parser.comments
        signals: List[Signal] = []
        for event in self.parser.feed(chunk):
            if event.name == "message":
                self._fresh.append(parse_object(event.data))
            else:
                signals += self._flush()
                signals += self._named(event)
        signals += self._flush()
        if self.parser.comments > comments and self.open_at is not None:
            signals.append(Input("progress"))
        return signals

    def _flush(self) -> List[Signal]:
        if not self._fresh:
            return []
        self.place.moved = True
        batches, self._fresh = batches_of(self._fresh), []
        return [Frame("events", {"epoch": self.following.follow.epoch}, batches)]

    def _named(self, event: StreamEvent) -> List[Signal]:
        body: Dict[str, Any] = parse_object(event.data)
        if event.name == "hello":
            self.open_at = self.heard_at
            self.following.http.spoken = True
            return [Input("opened"), *self.following.tell("hello", body)]
        if event.name == "closing":
            return [closing(body.get("code", 0), body.get("reason", ""), self.parser.retry_after)]
        if event.name == "error":
            error = problem_error(body, body.get("status", 0))
            return [Input("lost", error)] if error.retryable else [Frame("error", body)]
        if event.name == "caught_up":
            self.place.moved = True
        return self.following.tell(_NAMES.get(event.name, event.name), body)


def event_stream(following: Following) -> Generator[Signal, None, None]:
    """Follows by one event stream, until it ends or its turn is over."""
    http = following.http
    place = http.turns.take()
    stream = _Stream(following, place)
    response: Optional[httpx.Response] = None
    late: Optional[Later] = None
    try:
        following.bearer = http.credentials.get()
        response = http.follow(replace(following.call(), headers=_STREAM_HEADERS))
        opened = response
        if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
            strange = ProtocolError("the response is not an event stream. Is this a Threadline server?")
            ended = Input("unsupported", http.strange(strange))
        else:
            place.cut = lambda: shut(opened)
            # An intermediary may send the head of the response, and hold its body back.
            late = Later(OPEN_TIMEOUT, lambda: shut(opened) if stream.open_at is None else None)
            for chunk in response.iter_bytes():
                for signal in stream.take(chunk):
                    yield signal
                if place.over:
                    break
                if http.credentials.is_due() and http.credentials.get() != following.bearer:
                    yield Input("renewed")
            ended = stream.broken(ConnectionFailed("the event stream ended"))
    except ThreadlineError as error:
        if isinstance(error, Closed):
            raise
        if is_answer(error):
            ended = following.refused(error)
        else:
            ended = Input("unsupported", error) if isinstance(error, Timeout) else stream.broken(error)
    except (httpx.HTTPError, httpx.StreamError, RuntimeError) as error:
        failure = lost(http.config, error)
        if isinstance(failure, Timeout):
            ended = Input("silent" if stream.gets_through else "unsupported", failure)
        elif stream.open_at is None and late is not None and time.monotonic() - place.since > OPEN_TIMEOUT:
            # A frame held back here would hold back the next stream as well, and for as long.
            ended = Input("unsupported", Timeout("no event stream started before the timeout"))
        else:
            ended = stream.broken(failure)
    finally:
        if late is not None:
            late.cancel()
        if response is not None:
            http.done(response)
        http.turns.leave(place)
    if http.closed.is_set():
        raise Closed("the client was closed")
    # The turn may be over because another subscription waits: then the connection continues with the next turn.
    if not place.over:
        yield following.diagnose(ended) if ended.name in ("blocked", "unsupported") else ended


def long_poll(following: Following) -> Generator[Signal, None, None]:
    """Follows by one page of events, which waits at the server until there is something new."""
    http, follow = following.http, following.follow
    place = http.turns.take()
    try:
        following.bearer = http.credentials.get()
        after = follow.at
        if not following.greeted and follow.run_id is not None:
            run = _run_of(following)
            # A turn that waits has no events: the server refuses it as it does for streams.
            if run["status"] != "queued":
                after = max(after, run["firstSeq"] - 1)
        try:
            page = _page(following)
        except ThreadNotFound:
            if not following.greeted:
                raise
            yield Frame("ended", {"reason": "thread-deleted"})
            return
        yield Input("opened")
        for signal in _signals(following, page, after):
            yield signal
        if follow.run_id is not None and not page["hasMore"]:
            run = _run_of(following)
            if run["status"] != "queued" and run["endedAt"] is not None and run["lastSeq"] <= follow.at:
                yield Frame("ended", {"reason": "run-ended", "seq": run["lastSeq"]})
    except ThreadlineError as error:
        if isinstance(error, Closed):
            raise
        yield following.refused(error)
    finally:
        http.turns.leave(place)


def _signals(following: Following, page: JsonObject, after: int) -> List[Signal]:
    epoch, page_epoch = following.follow.epoch, page["epoch"]
    signals: List[Signal] = []
    if following.greeted:
        signals.append(Input("progress"))
    else:
        signals += following.tell("hello", {**page, "epoch": epoch or page_epoch, "after": after})
    if epoch is not None and epoch != page_epoch:
        signals.append(Frame("rebased", {"from": epoch, "epoch": page_epoch, "after": following.follow.at}))
    if page["events"]:
        signals.append(Frame("events", {"epoch": page_epoch}, batches_of(page["events"])))
    if not page["hasMore"]:
        last = page["events"][-1]["seq"] if page["events"] else after
        signals += following.tell("caughtUp", {"seq": last})
    return signals


def _run_of(following: Following) -> JsonObject:
    """The record of the run to which the subscription is limited."""
    path = ["threads", following.thread_id, "runs", following.follow.run_id or ""]
    record: JsonObject = following.http.once(Call(path))
    return record


def _page(following: Following) -> JsonObject:
    """Requests a page. Before the subscription is live, it is returned without waiting."""
    http = following.http
    wait = 0.0 if not following.live else TURN if http.turns.crowded else POLL
    began = time.monotonic()
    page = http.once(replace(following.call(wait=wait), timeout=wait + OPEN_TIMEOUT))
    if not isinstance(page, dict) or not isinstance(page.get("events"), list):
        raise http.strange(ProtocolError("the response is not a page of events. Is this a Threadline server?"))
    # An intermediary responds in the server's place, or prevents it from waiting.
    if not page["events"] and wait > 0 and time.monotonic() - began < wait / 2:
        http.pause(POLL_PAUSE)
    return page


_STREAM_HEADERS = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}

TRANSPORTS: Dict[str, Callable[[Following], Generator[Signal, None, None]]] = {
    "sse": event_stream,
    "long-poll": long_poll,
}
