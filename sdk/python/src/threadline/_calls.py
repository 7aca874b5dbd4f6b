"""Requests of a client: what asynchronous and synchronous ones have in common."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Sequence, Union
from urllib.parse import urlencode

import httpx

from ._config import Config
from ._errors import Closed, ConfigError, ConnectionFailed, ProtocolError, ThreadlineError, Timeout, is_foreign, read_problem
from ._ids import new_id, segment
from ._json import to_json
from ._limits import LAST_TRY
from ._machine import Input
from ._version import CLIENT
from .problems import QueueFull, RunActive


@dataclass(frozen=True)
class Call:
    """One request."""

    path: Sequence[str]
    """The path after `/v1`, as unescaped segments."""
    method: str = "GET"
    query: Mapping[str, Any] = field(default_factory=lambda: {})
    """Members that are None are left out."""
    body: Any = None
    """Sent as JSON; a string is sent unchanged, as JSON text."""
    headers: Mapping[str, str] = field(default_factory=lambda: {})
    kind: Optional[str] = None
    """Kind of call, which selects its retry time; by default `reads` for GET, else `writes`."""
    retry_for: Optional[float] = None
    """Retry time in seconds, in place of the retry time of the kind."""
    timeout: Optional[float] = None
    """Timeout of one try, in place of the client's."""
    least: float = LAST_TRY
    """Minimum timeout of one try, even if less retry time is left."""
    keyed: bool = False
    """True if the server accepts an `Idempotency-Key`: the same for all tries of the call."""
    expected: Sequence[str] = ()
    """Slugs of problems that the caller deals with: no warning is logged."""
    again: Optional[Callable[[ThreadlineError], bool]] = None
    """True for an error after which the call is tried again; by default those that are retryable."""

    def budget(self, config: Config) -> float:
        """Retry time in seconds."""
        if self.retry_for is not None:
            return self.retry_for
        return config.retries.of(self.kind or ("reads" if self.method == "GET" else "writes"))

    def is_worth_another(self, error: ThreadlineError) -> bool:
        return self.again(error) if self.again else error.retryable


class Tries:
    """The tries of one call, which have ids in common: `<id>`, `<id>.2`, `<id>.3`."""

    def __init__(self) -> None:
        self.id = new_id()
        self.count = 0

    @property
    def request_id(self) -> Optional[str]:
        return f"{self.id}.{self.count}" if self.count > 1 else self.id if self.count else None


def not_busy(error: ThreadlineError) -> bool:
    """The caller decides whether to wait for the end of another run, or for room in the queue."""
    return error.retryable and not isinstance(error, (RunActive, QueueFull))


def url_of(config: Config, call: Call) -> str:
    """`<base>/v1/<path>?<query>`"""
    members = {name: _text(value) for name, value in call.query.items() if value is not None}
    url = "/".join([config.base, "v1", *map(segment, call.path)])
    return f"{url}?{urlencode(members)}" if members else url


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def content_of(call: Call) -> Optional[bytes]:
    """The body of a request. JSON text is ASCII."""
    if call.body is None:
        return None
    return (call.body if isinstance(call.body, str) else to_json(call.body)).encode("ascii")


def headers_of(config: Config, call: Call, tries: Tries, bearer: Optional[str]) -> httpx.Headers:
    headers = httpx.Headers(dict(config.headers))
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    # Header values are sent as UTF-8, because IDs of users may have any character.
    headers.update({name.encode(): value.encode() for name, value in {**config.identity, **call.headers}.items()})
    headers["Threadline-Client"] = CLIENT
    headers["x-request-id"] = tries.request_id or tries.id
    if call.keyed:
        headers["Idempotency-Key"] = tries.id
    if bearer is not None:
        headers["Authorization"] = f"Bearer {bearer}"
    return headers


def lost(config: Config, error: BaseException) -> ThreadlineError:
    """The error of a request without a complete response."""
    said = str(error) or type(error).__name__
    if isinstance(error, httpx.TimeoutException):
        return Timeout(f"no response from {config.base} before the timeout ({said})")
    if isinstance(error, (httpx.UnsupportedProtocol, httpx.InvalidURL)):
        return ConfigError(f"{config.base} is not a valid server address ({said})")
    return ConnectionFailed(f"no connection to {config.base} ({said})")


def refusal(config: Config, status: int, headers: httpx.Headers, body: bytes) -> ThreadlineError:
    """The error of a response that is no success."""
    if 300 <= status < 400:
        # Following a redirect would send the user, and possibly the key, to another server.
        return ConfigError(f"{config.base} redirects to {headers.get('Location', 'another address')}: use that address as url")
    try:
        retry_after: Optional[float] = max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        retry_after = None
    return read_problem(status, body, retry_after)


def parsed(config: Config, body: bytes) -> Any:
    """The JSON response; None for an empty one."""
    try:
        return json.loads(body) if body else None
    except ValueError:
        raise ProtocolError(f"the response from {config.base} is not JSON. Is this a Threadline server?") from None


def failing(error: ThreadlineError) -> Input:
    """The input of a connection's machine that an error is."""
    if isinstance(error, Closed):
        return Input("close", error)
    return Input("lost" if error.retryable else "refused", error)


def is_answer(error: ThreadlineError) -> bool:
    """True if the error comes from the server or from an invalid request, and not from the network."""
    slug: Union[str, None] = getattr(error, "slug", None)
    return not slug.startswith("http-") if slug is not None else not error.retryable


__all__ = [
    "Call", "Tries", "content_of", "failing", "headers_of", "is_answer", "is_foreign", "lost", "not_busy", "parsed", "refusal", "url_of"
]  # fmt: skip
