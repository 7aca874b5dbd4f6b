"""Errors of the package. Everything that it raises is a `ThreadlineError`, except cancellations and what callers' own code raises."""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Type

from ._limits import CUT_TEXT

if TYPE_CHECKING:
    from ._records import RunRecord
    from ._stored import Stored

RETRYABLE_STATUSES = (429, 502, 503, 504)
"""Statuses of foreign responses that may be temporary; a problem of Threadline has `retryable` instead."""


class ThreadlineError(Exception):
    """Base class of the errors of this package."""

    retryable: bool = False
    """True if the same call can succeed later. Such calls have been retried for a while."""
    retry_after: Optional[float] = None
    """Delay before the next attempt that the server requests, in seconds."""
    request_id: Optional[str] = None
    """The id of the failed request, also in the server's log; None if no request was sent."""
    help: Optional[str] = None
    """The next step."""
    problem: Mapping[str, Any] = MappingProxyType({})
    """The problem document of the server, empty if there is none. Members depend on its type, such as the active `run` of `run-active`."""


class ConfigError(ThreadlineError):
    """The client is misconfigured, or a value cannot be sent. No request was sent."""


class ConnectionFailed(ThreadlineError):
    """No connection could be opened, or the connection broke. The request may have taken effect."""

    retryable = True

    def __init__(self, message: str, *, retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Timeout(ConnectionFailed):
    """No response arrived in time. The request may have taken effect."""


class ProtocolError(ThreadlineError):
    """The peer does not follow Threadline's protocol."""


class Closed(ThreadlineError):
    """The client, the run or the subscription is closed and cannot be used any more."""


class StopRequested(ThreadlineError):
    """A stop of the run was requested. The end of the block of the run suppresses the error."""


class NotResumed(ThreadlineError):
    """The run is active, and `on_existing` is "refuse". Nothing was written."""

    def __init__(self, message: str, record: RunRecord, stored: Stored) -> None:
        super().__init__(message)
        self.record = record
        self.stored = stored


class RunEnded(ThreadlineError):
    """The run under this id has ended already. `run_once` returns its record instead."""

    def __init__(self, record: RunRecord) -> None:
        super().__init__(f"the run {record.run_id} has ended already, as {record.status}: use another run_id, or run_once")
        self.record = record


class ProblemError(ThreadlineError):
    """The server refused the request. Each problem type has a subclass."""

    slug: str
    """The stable name of the problem type; `http-502` and the like if the response did not come from Threadline."""
    status: int
    """The HTTP status of the response."""
    detail: str
    """Explanation of this occurrence of the problem."""

    def __init__(self, problem: Mapping[str, Any], status: int, retry_after: Optional[float] = None) -> None:
        slug = slug_of(problem) or f"http-{status}"
        title, detail, advice = (_text(problem.get(name)) for name in ("title", "detail", "help"))
        said = f": {detail}" if detail and detail != title else ""
        super().__init__(f"{title or slug} ({status} {slug}){said}{'. ' + advice if advice else ''}")
        self.slug = slug
        self.status = status
        self.detail = detail
        self.help = advice or None
        self.problem = problem
        retryable = problem.get("retryable")
        self.retryable = retryable if isinstance(retryable, bool) else status in RETRYABLE_STATUSES
        delay = problem.get("retryAfterMs")
        self.retry_after = delay / 1_000 if isinstance(delay, (int, float)) else retry_after


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


BY_SLUG: Dict[str, Type[ProblemError]] = {}
"""The class of each problem type; `problems.py` fills it."""


def slug_of(problem: Mapping[str, Any]) -> Optional[str]:
    """The slug of a problem document; None if it names no type."""
    type_ = problem.get("type")
    slug = type_.rsplit("/", 1)[-1] if isinstance(type_, str) else ""
    return slug if slug and slug != "about:blank" else None


def problem_error(problem: Mapping[str, Any], status: int, retry_after: Optional[float] = None) -> ProblemError:
    """The error of a problem document; a plain `ProblemError` for an unknown type."""
    return BY_SLUG.get(slug_of(problem) or "", ProblemError)(problem, status, retry_after)


def read_problem(status: int, body: bytes, retry_after: Optional[float] = None) -> ProblemError:
    """The error of a response, which may come from a proxy instead of Threadline."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        said = body.decode("utf-8", "replace")[:CUT_TEXT].strip()
        document = {"title": f"HTTP status {status}", "detail": said}
    return problem_error(document, status, retry_after)


_OWN_TYPE = re.compile(r"(^|/)problems/[^/]+$")


def is_foreign(error: object) -> bool:
    """True if a response did not come from Threadline but from an intermediary, so that the condition may be temporary."""
    if not isinstance(error, ProblemError):
        return isinstance(error, ProtocolError)
    type_ = error.problem.get("type")
    return not (isinstance(type_, str) and _OWN_TYPE.search(type_))


def name_of(error: BaseException) -> str:
    """The name of an error for logs: the slug of a problem, else the name of its class."""
    return error.slug if isinstance(error, ProblemError) else type(error).__name__
