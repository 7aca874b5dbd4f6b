"""Close codes of the server (proto/socket.md), which event streams name as well."""

from __future__ import annotations

from typing import Optional

from ._errors import ConnectionFailed, ProtocolError, problem_error
from ._machine import Input

UNAUTHORIZED = 4501
_OF_THE_CLIENT = (1002, 1003, 1007, 1008, 1009, 1010)
"""Registered codes that blame the client's frames."""


def closing(code: int, reason: str, retry_after: Optional[float] = None) -> Input:
    """The meaning of a close code for a connection."""
    if code == UNAUTHORIZED:
        detail = "The key or token has expired or was revoked."
        problem = {"type": "/problems/unauthorized", "title": "Authentication required", "status": 401, "detail": detail}
        return Input("unauthorized", problem_error(problem, 401))
    said = f"the server closed the connection: {code} {reason}"
    if 4_500 <= code < 5_000 or code in _OF_THE_CLIENT:
        return Input("refused", ProtocolError(said))
    return Input("lost", ConnectionFailed(said, retry_after=retry_after))
