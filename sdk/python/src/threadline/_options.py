"""Values of options that are one of several words."""

from __future__ import annotations

from typing import Literal

OnExisting = Literal["restart", "continue", "refuse"]
"""Treatment of an active run of another call."""
StopBy = Literal["cancel", "flag"]
"""How a body learns of a stop."""
Busy = Literal["reject", "enqueue", "interrupt"]
"""Treatment of a request for a run while another one is active."""
ThreadStatus = Literal["running", "waiting", "failed", "idle"]
ThreadOrder = Literal["recent", "created"]
