"""Agents as endpoints: an asynchronous function is served over AG-UI, for Threadline and other clients.

`endpoint` and `mount` require the extra `threadline[starlette]`. A FastAPI application is a Starlette application.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, AsyncGenerator, Awaitable, Callable, Dict, List, Optional, Sequence

from ._async.writers import AsyncWriters, Interrupted
from ._batches import is_terminal, type_of
from ._errors import Closed, ConfigError, name_of
from ._json import JsonObject, to_json
from ._limits import ENDPOINT_BEAT, ENDPOINT_EVENTS, MAX_FAILURE_CHARS, MAX_INPUT_BYTES
from ._message_ids import MessageIds

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_log = logging.getLogger("threadline")


@dataclass(frozen=True)
class RunAgentInput:
    """The input of a run: AG-UI's RunAgentInput."""

    thread_id: str
    run_id: str
    messages: List[JsonObject] = field(default_factory=lambda: [])
    tools: List[JsonObject] = field(default_factory=lambda: [])
    context: List[JsonObject] = field(default_factory=lambda: [])
    state: Any = None
    resume: List[JsonObject] = field(default_factory=lambda: [])
    """Answers to interrupts."""
    forwarded_props: Any = None
    parent_run_id: Optional[str] = None
    extra: JsonObject = field(default_factory=lambda: {})
    """Members that this version of the package does not know."""

    @classmethod
    def of(cls, document: object) -> RunAgentInput:
        """Reads an input; a `ConfigError` says what is wrong with it."""
        if not isinstance(document, dict):
            raise ConfigError("the input is not a JSON object")
        members: JsonObject = dict(document)
        ids: List[str] = []
        for name in ("threadId", "runId"):
            value = members.pop(name, None)
            if not isinstance(value, str):
                raise ConfigError(f"{name} of the input must be a string, not {json.dumps(value)}")
            ids.append(value)
        lists: Dict[str, List[JsonObject]] = {}
        for name in ("messages", "tools", "context", "resume"):
            value = members.pop(name, None) or []
            if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
                raise ConfigError(f"{name} of the input must be a list of objects")
            lists[name] = value
        return cls(
            thread_id=ids[0],
            run_id=ids[1],
            state=members.pop("state", None),
            forwarded_props=members.pop("forwardedProps", None),
            parent_run_id=members.pop("parentRunId", None),
            extra=members,
            **lists,
        )


class AgentRun(AsyncWriters):
    """A run whose events the endpoint returns to its caller. `AsyncRun` has the same writers."""

    def __init__(self, input: RunAgentInput, attempt: int) -> None:
        super().__init__()
        self.thread_id = input.thread_id
        self.run_id = input.run_id
        self.attempt: int = attempt
        """Number of the attempt, from 1. Above 1, an attempt before was lost."""
        self.unverified: List[JsonObject] = _unverified(input.forwarded_props)
        """Tool calls of lost attempts that have no result: their outcome is unknown."""
        self._ids = MessageIds(input.run_id)
        self._frames: asyncio.Queue[Optional[bytes]] = asyncio.Queue(ENDPOINT_EVENTS)
        self._count = 0
        self._refused: Optional[ConfigError] = None
        self._has_ended = False

    @property
    def resumed(self) -> bool:
        """True if an attempt before this one has begun the run."""
        return self.attempt > 1

    async def _append(self, events: Sequence[JsonObject], *, told: bool = True) -> None:
        for event in events:
            try:
                type_ = type_of(event)
            except ConfigError as error:
                raise self._refuse(error) from None
            if self._has_ended:
                raise Closed("the run has ended with its terminal event")
            # The caller has the beginning of the run already.
            if type_ == "RUN_STARTED" and self._count:
                continue
            if is_terminal(event):
                if self._refused is not None and type_ == "RUN_FINISHED":
                    raise self._refused
                self._has_ended = True
            self._count += 1
            try:
                text = to_json(self._ids.given(event, self._count))
            except ConfigError as error:
                raise self._refuse(error) from error
            await self._frames.put(f"data: {text}\n\n".encode("ascii"))

    def _refuse(self, error: ConfigError) -> ConfigError:
        self._refused = self._refused or error
        return error


Agent = Callable[[RunAgentInput, AgentRun], Awaitable[object]]
"""An agent: an asynchronous function that writes into its run. The run ends when the function returns."""


def _unverified(forwarded: Any) -> List[JsonObject]:
    told: Any = forwarded
    for member in ("threadline", "recovery"):
        told = told.get(member) if isinstance(told, dict) else None
    calls = told.get("unverified") if isinstance(told, dict) else None
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


async def _produce(agent: Agent, input: RunAgentInput, run: AgentRun) -> None:
    """Calls the agent, between the first and the last event of its run."""
    ids = {"threadId": run.thread_id, "runId": run.run_id}
    try:
        await run._append([{"type": "RUN_STARTED", **ids}])
        try:
            await agent(input, run)
        except Interrupted as interrupted:
            if interrupted.run is not run:
                raise
        if run._refused is not None:
            raise run._refused
        if not run._has_ended:
            await run._end_parts()
            await run._append([{"type": "RUN_FINISHED", **ids}])
    except Exception as error:
        _log.warning("the run %s of the agent has failed: %s", run.run_id, name_of(error), exc_info=error)
        if not run._has_ended:
            said = (str(error) or type(error).__name__)[:MAX_FAILURE_CHARS]
            await run._append([{"type": "RUN_ERROR", "message": said, "code": "agent-failed"}])
    await run._frames.put(None)


async def frames(agent: Agent, input: RunAgentInput, attempt: int = 1) -> AsyncGenerator[bytes, None]:
    """The events of a run as server-sent events, for other frameworks than Starlette. Closing the generator cancels the agent."""
    run = AgentRun(input, attempt)
    producing = asyncio.ensure_future(_produce(agent, input, run))
    try:
        while True:
            try:
                frame = await asyncio.wait_for(run._frames.get(), ENDPOINT_BEAT)
            except asyncio.TimeoutError:
                # A comment: a caller, or a proxy before it, does not take silence for the end.
                yield b":\n\n"
                continue
            if frame is None:
                return
            yield frame
    finally:
        producing.cancel()
        await asyncio.wait({producing})


def endpoint(agent: Agent) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of an agent, for POST requests with a RunAgentInput. The response streams the events of the run."""
    from starlette.responses import JSONResponse, StreamingResponse

    async def serve(request: Request) -> Response:
        body = await _body(request)
        try:
            if body is None:
                raise ConfigError(f"the input is larger than {MAX_INPUT_BYTES} bytes")
            input = RunAgentInput.of(_parsed(body))
        except ConfigError as error:
            problem = {"type": "about:blank", "title": "Invalid input", "status": 400, "detail": str(error)}
            return JSONResponse(problem, 400, media_type="application/problem+json")
        attempt = request.headers.get("Threadline-Attempt", "1")
        number = int(attempt) if attempt.isascii() and attempt.isdigit() else 1
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(frames(agent, input, number), media_type="text/event-stream", headers=headers)

    return serve


async def _body(request: Request) -> Optional[bytes]:
    """The body of a request; None if it is too large."""
    pieces: List[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > MAX_INPUT_BYTES:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ConfigError("the input is not JSON") from None


def mount(app: Starlette, path: str, agent: Agent) -> None:
    """Adds the endpoint of an agent to an application of Starlette or FastAPI."""
    app.add_route(path, endpoint(agent), methods=["POST"])


__all__ = ["Agent", "AgentRun", "RunAgentInput", "endpoint", "frames", "mount"]
