"""Options of a client, validated."""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import dataclass, field
from typing import Mapping, Optional, Sequence, Tuple

import httpx

from ._errors import ConfigError
from ._limits import PRODUCERS_RETRY, READS_RETRY, WRITES_RETRY

TRANSPORTS: Tuple[str, ...] = ("sse", "long-poll")
"""Transports of readers, the most preferred first."""


@dataclass(frozen=True)
class Retries:
    """Retry times in seconds, by the kind of call. 0: no retries, None: no limit. Only errors that are `retryable` are retried."""

    reads: Optional[float] = READS_RETRY
    """Calls that only read."""
    writes: Optional[float] = WRITES_RETRY
    """Calls that change something, or start a run of an agent."""
    producers: Optional[float] = PRODUCERS_RETRY
    """Runs that this program produces."""

    def of(self, kind: str) -> float:
        seconds: Optional[float] = getattr(self, kind)
        return float("inf") if seconds is None else seconds


@dataclass(frozen=True)
class Config:
    """Validated options."""

    base: str
    """The server's address, without a slash at its end."""
    identity: Mapping[str, str]
    """Headers that name the user and the project."""
    headers: Mapping[str, str]
    timeout: float
    retries: Retries
    transports: Tuple[str, ...]
    validate: bool = True
    """True if the server validates runs that this program produces as AG-UI."""
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("threadline"))


def configure(
    *,
    url: Optional[str],
    user: Optional[str],
    project: Optional[str],
    headers: Optional[Mapping[str, str]],
    timeout: float,
    retries: Retries,
    transports: Sequence[str],
    validate: bool,
    logger: Optional[logging.Logger],
) -> Config:
    """Validates options; a `ConfigError` says what to fix."""
    if not transports or not set(transports) <= set(TRANSPORTS):
        raise ConfigError(f"transports must be some of {', '.join(TRANSPORTS)}")
    for kind in ("reads", "writes", "producers"):
        if not retries.of(kind) >= 0:
            raise ConfigError(f"retries.{kind} must be a number of seconds, or None")
    if not timeout > 0:
        raise ConfigError("timeout must be a number of seconds")
    identity = {}
    if user is not None:
        identity["Threadline-User"] = header_value("user", user)
    if project is not None:
        identity["Threadline-Project"] = header_value("project", project)
    own = {name: header_value(f"the header {name}", value) for name, value in (headers or {}).items()}
    return Config(
        base=_address(url if url is not None else os.environ.get("THREADLINE_URL")),
        identity=identity,
        headers=own,
        timeout=timeout,
        retries=retries,
        transports=tuple(transports),
        validate=validate,
        logger=logger or logging.getLogger("threadline"),
    )


def credential(api_key: Optional[str], token: object) -> object:
    """The credential: an API key, else that of the environment; or a token, or a function that returns one."""
    if api_key is not None and token is not None:
        raise ConfigError("pass either api_key or token, not both")
    if token is not None:
        return token if callable(token) else header_value("token", token)
    key = api_key if api_key is not None else os.environ.get("THREADLINE_API_KEY") or None
    return None if key is None else header_value("api_key", key)


def header_value(name: str, value: object) -> str:
    """Validates text that is sent in a header."""
    if isinstance(value, str) and re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", value):
        return value
    raise ConfigError(f"{name} is sent in a header: it must be visible ASCII")


def _address(url: Optional[str]) -> str:
    if url is None:
        raise ConfigError("the server's address is missing: pass url, or set THREADLINE_URL")
    # A password would appear in logs, and a query would be sent with every request.
    found = re.fullmatch(r"(https?://[^/?#@\\\s]+(?:/[^?#\\\s]*?)?)/*", url, re.IGNORECASE)
    if found:
        try:
            httpx.URL(found.group(1))
            return found.group(1)
        except httpx.InvalidURL:
            pass
    raise ConfigError(f"{json.dumps(url)} is not a valid server address: use the form http://localhost:7420")
