"""The socket under a response."""

from __future__ import annotations

import socket
from typing import Any


def shut(response: Any) -> None:
    """Ends the connection of a response, for whoever reads it in another task or thread."""
    stream = response.extensions.get("network_stream")
    own = None if stream is None else stream.get_extra_info("socket")
    if own is not None:
        try:
            own.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended already
