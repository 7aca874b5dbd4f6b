"""Trust in certificates. Loading the list of authorities takes as long as many requests, so that all clients share it."""

from __future__ import annotations

import ssl
from functools import lru_cache

import httpx


@lru_cache(maxsize=1)
def trusted() -> ssl.SSLContext:
    return httpx.create_ssl_context()
