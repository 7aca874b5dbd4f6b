"""The real server, which says whether it accepts the events of a run."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import httpx
from harness.server import Server


class Judge:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._numbers = count(1)
        self._thread = ""

    def refusal(self, events: list[dict[str, Any]]) -> str | None:
        """Why the server refuses a run of these events, as events of AG-UI; ``None`` if it stores them."""
        number = next(self._numbers)
        thread, run = f"judged-{number}", f"run-{number}"
        self._thread = thread
        started = {"type": "RUN_STARTED", "threadId": thread, "runId": run}
        body = [started, *events, {"type": "RUN_FINISHED", "threadId": thread, "runId": run}]
        self._server.request("POST", "/v1/threads", {"threadId": thread})
        try:
            self._server.request("PUT", f"/v1/threads/{thread}/runs/{run}?validate=ag-ui", body)
        except httpx.HTTPStatusError as error:
            problem = json.loads(error.response.content)
            at = problem.get("index")
            return f"{problem} at {body[at] if isinstance(at, int) else at}"
        return None

    def messages(self) -> list[dict[str, Any]]:
        """The messages of the thread with the run of the last call, as the server folds them."""
        found: list[dict[str, Any]] = self._server.request("GET", f"/v1/threads/{self._thread}/messages")["messages"]
        return found
