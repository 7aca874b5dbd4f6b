"""The events with which a run begins: they are in the commit that starts it."""

from __future__ import annotations

from typing import Any, Iterable, List, Optional

from ._ids import new_id
from ._json import JsonObject, plain

UNSET: Any = object()
"""The default of a state, since a state may be null."""


def opening_of(
    thread_id: str,
    run_id: str,
    *,
    messages: Iterable[object],
    tools: Iterable[object],
    context: Iterable[object],
    resume: Optional[Iterable[object]],
    state: Any,
) -> List[JsonObject]:
    named = [{"id": new_id(), **plain(message)} for message in messages]
    given = {"messages": named, "tools": [plain(tool) for tool in tools], "context": [plain(one) for one in context]}
    if resume is not None:
        given["resume"] = [plain(one) for one in resume]
    started: JsonObject = {"type": "RUN_STARTED", "threadId": thread_id, "runId": run_id}
    if any(given.values()):
        started["input"] = {"threadId": thread_id, "runId": run_id, **given}
    return [started] if state is UNSET else [started, {"type": "STATE_SNAPSHOT", "snapshot": state}]


def user(content: Any, **members: Any) -> JsonObject:
    """A message of the user, in AG-UI's format. `content` is a text, or a list of parts; `members` are further members, such as `id`."""
    return {"role": "user", "content": content, **members}


def assistant(content: Any, **members: Any) -> JsonObject:
    """A message of the assistant, in AG-UI's format. The arguments are those of `user`."""
    return {"role": "assistant", "content": content, **members}


def system(content: Any, **members: Any) -> JsonObject:
    """A system message, in AG-UI's format. The arguments are those of `user`."""
    return {"role": "system", "content": content, **members}
