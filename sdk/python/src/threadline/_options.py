"""Values of options that are one of several words."""

from __future__ import annotations

from typing import Literal

OnExisting = Literal["restart", "continue", "refuse"]
"""Treatment of a run that is active already, in another call."""
StopBy = Literal["cancel", "flag"]
"""Way in which a body is told of a stop request: by a cancellation, or by `stop_requested`."""
Busy = Literal["reject", "enqueue", "interrupt"]
"""Treatment of a request for a run while another one is active."""
ThreadStatus = Literal["running", "waiting", "failed", "idle"]
ThreadOrder = Literal["recent", "created"]
