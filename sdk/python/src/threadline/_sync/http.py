"""Requests to one server."""

from __future__ import annotations

import os
import random
import time
from typing import Any, Callable, List, Optional, Set
from weakref import WeakSet

import httpx

from .._calls import Call, Tries, content_of, headers_of, is_foreign, lost, parsed, refusal, url_of
from .._config import Config, header_value
from .._credentials import usable_for
from .._errors import Closed, ConfigError, ConnectionFailed, ProblemError, ThreadlineError, name_of
from .._limits import CONNECTIONS, HEARTBEAT, MISSED_HEARTBEATS, OPEN_TIMEOUT, OTHER_RUN_WAIT, STREAMS, TOKEN_TIMEOUT
from .._machine import Machine, backoff, new_machine
from .._runtime_sync import Condition, Event, Home, from_source
from .._socket import shut
from .._tls import trusted
from ..problems import RunActive
from .turns import Turns

_CLIENTS: WeakSet[Http] = WeakSet()
"""The clients of this process."""


def _forked() -> None:
    for http in list(_CLIENTS):
        http.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Credentials:
    """The bearer token of every request. A token from a callback is used until shortly before it expires, or until it is refused."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._token: Optional[str] = None
        self._renew_at = 0.0
        self._asking = False
        self._changed = Condition()

    @property
    def renewable(self) -> bool:
        """True if the source can supply another token."""
        return callable(self._source)

    def is_due(self) -> bool:
        """True if the token in use is to be renewed."""
        return self.renewable and time.monotonic() >= self._renew_at

    def get(self) -> Optional[str]:
        """The token; None if none was configured. Calls the source once, however many callers wait for it."""
        if not self.renewable:
            return None if self._source is None else str(self._source)
        with self._changed:
            while self._asking:
                self._changed.wait()
            if self._token is not None and time.monotonic() < self._renew_at:
                return self._token
            self._asking = True
        token: Optional[str] = None
        try:
            token = header_value("the result of the token callback", from_source(self._source, TOKEN_TIMEOUT))
            return token
        except ThreadlineError:
            raise
        except Exception as error:
            raise ConnectionFailed(f"no token ({error})") from error
        finally:
            with self._changed:
                self._asking = False
                if token is not None:
                    self._token = token
                    self._renew_at = time.monotonic() + usable_for(token)
                self._changed.notify_all()

    def afresh(self) -> Credentials:
        """Credentials of the same source, as if none had been asked for."""
        return Credentials(self._source)

    def refused(self, token: Optional[str]) -> None:
        """Discards this token after the server has refused it, unless it has been replaced meanwhile."""
        if self._token == token:
            self._token = None


class Http:
    """Requests of a client. Every error is a `ThreadlineError`."""

    def __init__(self, config: Config, source: Any, http: Optional[httpx.Client]) -> None:
        self.config = config
        self.credentials = Credentials(source)
        self.turns = Turns(STREAMS)
        self.closed = Event()
        # True once Threadline has responded: any foreign response after that comes from an intermediary.
        self.spoken = False
        # State of the network as far as it is known, from which the next subscription starts.
        self.known: Machine = new_machine(len(config.transports))
        self._given = http
        # True in a forked process for a client that was passed as `http`, which cannot be made anew.
        self._is_foreign = False
        self._client: Optional[httpx.Client] = http
        self._streams: Optional[httpx.Client] = http
        self._open: Set[httpx.Response] = set()
        self._inherited: List[object] = []
        self._home = Home()
        _CLIENTS.add(self)

    def forked(self) -> None:
        """Called in a process that was forked: connections and locks of before belong to the other process.

        Two processes that read one connection would receive each other's responses.
        """
        # Objects that are collected would close their connections, and tell the server so.
        self._inherited += [self._client, self._streams, self._open]
        self._client = self._streams = None
        self._open = set()
        self.turns = Turns(STREAMS)
        self.credentials = self.credentials.afresh()
        was, self.closed = self.closed.is_set(), Event()
        if was:
            self.closed.set()
        self._is_foreign = self._given is not None
        self._home = Home()

    def _requests(self) -> httpx.Client:
        self._check()
        if self._client is None:
            self._client = httpx.Client(verify=trusted(), limits=httpx.Limits(max_connections=CONNECTIONS))
        return self._client

    def _followers(self) -> httpx.Client:
        """The HTTP client of streams, with separate connections: a follower never starves an append."""
        self._check()
        if self._streams is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=STREAMS)
            self._streams = httpx.Client(verify=trusted(), limits=limits)
        return self._streams

    def _check(self) -> None:
        if self.closed.is_set():
            raise Closed("the client was closed")
        if self._is_foreign:
            raise ConfigError("`http` was made before this process was forked: make it, and the client, in this process")
        self._home.enter()

    def close(self) -> None:
        """Ends all streams and calls, and every later call."""
        self.closed.set()
        self.turns.close()
        for response in list(self._open):
            shut(response)
        for client in (self._client, self._streams):
            if client is not None and client is not self._given:
                client.close()

    def pause(self, seconds: float) -> None:
        """Waits, unless the client is closed."""
        if self.closed.wait(seconds):
            self._check()

    def strange(self, error: ThreadlineError) -> ThreadlineError:
        """A response that is not Threadline's: final if Threadline has never responded, otherwise possibly temporary."""
        if not self.spoken:
            return error
        temporary = ConnectionFailed(str(error))
        temporary.__cause__ = error
        return temporary

    def on_the_way(self, error: ThreadlineError) -> ThreadlineError:
        """The error of a subscription: a response of an intermediary does not end it."""
        return self.strange(error) if is_foreign(error) else error

    def call(self, call: Call) -> Any:
        """Sends a repeatable request until it succeeds, cannot succeed, or the retry time is over. Returns the JSON response."""
        tries = Tries()
        return self._retrying(call, lambda timeout: self._once(call, tries, timeout))

    def open(self, call: Call) -> httpx.Response:
        """The same for a response that is read as it arrives, and has to be closed by `done`."""
        tries = Tries()
        response: httpx.Response = self._retrying(call, lambda timeout: self._start(call, tries, timeout, timeout))
        return response

    def once(self, call: Call) -> Any:
        """Sends one request, without retries."""
        return self._once(call, Tries(), call.timeout or self.config.timeout)

    def follow(self, call: Call) -> httpx.Response:
        """Opens an event stream, without retries; it has to be closed by `done`."""
        return self._start(call, Tries(), OPEN_TIMEOUT, HEARTBEAT * MISSED_HEARTBEATS)

    def done(self, response: httpx.Response) -> None:
        """Closes a response."""
        self._open.discard(response)
        try:
            response.close()
        except (httpx.HTTPError, RuntimeError):
            pass  # the connection is gone

    def _retrying(self, call: Call, attempt: Callable[[float], Any]) -> Any:
        most = call.timeout or self.config.timeout
        budget = call.budget(self.config)
        began = time.monotonic()
        deadline = began + budget
        failures = 0
        while True:
            asked = time.monotonic()
            try:
                return attempt(most if budget == 0 else min(most, max(call.least, deadline - asked)))
            except ThreadlineError as error:
                if not call.is_worth_another(error):
                    raise
                failures += 1
                failed_at = time.monotonic()
                left = deadline - failed_at
                if isinstance(error, RunActive):
                    # The server is reachable, and the call waits for another run. If it becomes unreachable, the full time applies.
                    left = began + (OTHER_RUN_WAIT if budget else 0) - failed_at
                    deadline = failed_at + budget
                if left <= 0 or (error.retry_after or 0) > left:
                    raise
                wait = min(left, backoff(failures, random.random(), error.retry_after))
            self.pause(wait)

    def _once(self, call: Call, tries: Tries, timeout: float) -> Any:
        response = self._send(call, tries, self._requests(), httpx.Timeout(timeout), stream=False)
        try:
            answer = parsed(self.config, response.content)
        except ThreadlineError as error:
            failure = self.strange(error)
            failure.request_id = tries.request_id
            raise failure from None
        if answer is not None:
            self.spoken = True
        return answer

    def _start(self, call: Call, tries: Tries, opening: float, silence: float) -> httpx.Response:
        response = self._send(call, tries, self._followers(), httpx.Timeout(opening), stream=True)
        # The timeouts of a request apply again to each read of its body.
        timeouts = response.request.extensions.get("timeout")
        if isinstance(timeouts, dict):
            timeouts["read"] = silence
        self._open.add(response)
        return response

    def _send(self, call: Call, tries: Tries, client: httpx.Client, timeout: httpx.Timeout, *, stream: bool) -> httpx.Response:
        bearer = self.credentials.get()
        try:
            return self._try(call, tries, client, timeout, stream, bearer)
        except ProblemError as error:
            if error.status != 401 or not self.credentials.renewable:
                raise
        self.credentials.refused(bearer)
        return self._try(call, tries, client, timeout, stream, self.credentials.get())

    def _try(
        self, call: Call, tries: Tries, client: httpx.Client, timeout: httpx.Timeout, stream: bool, bearer: Optional[str]
    ) -> httpx.Response:
        """Sends one request, and logs it: ids, paths without queries, states and names of errors, never texts."""
        url = url_of(self.config, call)
        content = content_of(call)
        tries.count += 1
        headers = headers_of(self.config, call, tries, bearer)
        began = time.monotonic()
        status: Optional[int] = None
        failure: Optional[ThreadlineError] = None
        try:
            request = client.build_request(call.method, url, content=content, headers=headers, timeout=timeout)
            response = client.send(request, stream=stream, follow_redirects=False)
            status = response.status_code
            if 200 <= status < 300:
                return response
            body = response.read()
            response.close()
            failure = refusal(self.config, status, response.headers, body)
            if 300 <= status < 400:
                failure = self.strange(failure)
            failure.request_id = tries.request_id
            raise failure
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, RuntimeError) as error:
            self._check()
            failure = lost(self.config, error)
            failure.request_id = tries.request_id
            raise failure from error
        finally:
            self._log(call, tries, url, status, began, failure)

    def _log(self, call: Call, tries: Tries, url: str, status: Optional[int], began: float, error: Optional[ThreadlineError]) -> None:
        path = httpx.URL(url).path
        fine = error is None or name_of(error) in call.expected
        log = self.config.logger.debug if fine else self.config.logger.warning
        milliseconds = round((time.monotonic() - began) * 1_000)
        said = "" if error is None else f", {name_of(error)}"
        log("%s %s: %s in %d ms (%s)%s", call.method, path, status or "no response", milliseconds, tries.request_id, said)
