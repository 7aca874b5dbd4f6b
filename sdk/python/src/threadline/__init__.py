"""Durable, realtime threads for AI agents: a client of Threadline.

`AsyncThreadline` is the asynchronous client, `Threadline` the synchronous one. `threadline.problems` has the errors of the
server, `threadline.agui` serves agents as endpoints, and `threadline.conversation` builds messages and state from events.
`threadline.kv` has operations on key-value entries, and `threadline.checkpoints` the records of checkpoints.
`threadline.langgraph`, `threadline.openai_agents`, `threadline.pydantic_ai` and `threadline.adk` keep data of these frameworks.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from ._async.checkpoints import AsyncCheckpoints
    from ._async.client import AsyncThreadline
    from ._async.feed import AsyncFeed
    from ._async.items import AsyncItems
    from ._async.kv import AsyncKv
    from ._async.run import AsyncRun
    from ._async.subscription import AsyncSubscription
    from ._async.thread import AsyncThread
    from ._async.writers import AsyncPart, AsyncText, AsyncToolCall
    from ._config import Retries
    from ._errors import (
        Closed,
        ConfigError,
        ConnectionFailed,
        NotResumed,
        ProblemError,
        ProtocolError,
        RunEnded,
        StopRequested,
        ThreadlineError,
        Timeout,
    )
    from ._items import (
        Batch,
        CaughtUp,
        Cursor,
        Ended,
        Events,
        FellBehind,
        Hello,
        Item,
        Queue,
        Rebased,
        Reconnecting,
        common_cursor,
    )
    from ._json import JsonObject
    from ._opening import assistant, system, user
    from ._records import (
        AddedItems,
        AgentRecord,
        Entry,
        FeedEntry,
        Inbox,
        ItemPage,
        ListItem,
        OpenInterrupt,
        PoppedItems,
        QueuedRun,
        RunPage,
        RunRecord,
        StartedRun,
        ThreadPage,
        ThreadRecord,
    )
    from ._stored import EventPage, LoggedEvent, Messages, StateAt, Stored
    from ._sync.checkpoints import Checkpoints
    from ._sync.client import Threadline
    from ._sync.feed import Feed
    from ._sync.items import Items
    from ._sync.kv import Kv
    from ._sync.run import Run
    from ._sync.subscription import Subscription
    from ._sync.thread import Thread
    from ._sync.writers import Part, Text, ToolCall
    from .pipe import StreamFailed

_WHERE = {
    "_async.checkpoints": ("AsyncCheckpoints",),
    "_async.client": ("AsyncThreadline",),
    "_async.feed": ("AsyncFeed",),
    "_async.items": ("AsyncItems",),
    "_async.kv": ("AsyncKv",),
    "_async.run": ("AsyncRun",),
    "_async.subscription": ("AsyncSubscription",),
    "_async.thread": ("AsyncThread",),
    "_async.writers": ("AsyncPart", "AsyncText", "AsyncToolCall"),
    "_config": ("Retries",),
    "_errors": (
        "Closed",
        "ConfigError",
        "ConnectionFailed",
        "NotResumed",
        "ProblemError",
        "ProtocolError",
        "RunEnded",
        "StopRequested",
        "ThreadlineError",
        "Timeout",
    ),
    "_items": (
        "Batch",
        "CaughtUp",
        "Cursor",
        "Ended",
        "Events",
        "FellBehind",
        "Hello",
        "Item",
        "Queue",
        "Rebased",
        "Reconnecting",
        "common_cursor",
    ),
    "_json": ("JsonObject",),
    "_opening": ("assistant", "system", "user"),
    "_records": (
        "AddedItems",
        "AgentRecord",
        "Entry",
        "FeedEntry",
        "Inbox",
        "ItemPage",
        "ListItem",
        "OpenInterrupt",
        "PoppedItems",
        "QueuedRun",
        "RunPage",
        "RunRecord",
        "StartedRun",
        "ThreadPage",
        "ThreadRecord",
    ),
    "_stored": ("EventPage", "LoggedEvent", "Messages", "StateAt", "Stored"),
    "_sync.checkpoints": ("Checkpoints",),
    "_sync.client": ("Threadline",),
    "_sync.feed": ("Feed",),
    "_sync.items": ("Items",),
    "_sync.kv": ("Kv",),
    "_sync.run": ("Run",),
    "_sync.subscription": ("Subscription",),
    "_sync.thread": ("Thread",),
    "_sync.writers": ("Part", "Text", "ToolCall"),
    "pipe": ("StreamFailed",),
}
"""Modules with the names of the package. They are imported when a name is used: a program needs one of the two clients."""

_MODULES = {name: module for module, names in _WHERE.items() for name in names}


if not TYPE_CHECKING:  # a checker reports names that do not exist

    def __getattr__(name: str) -> Any:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f".{module}", __name__), name)
        return found


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})


__all__ = [
    "AddedItems",
    "AgentRecord",
    "AsyncCheckpoints",
    "AsyncFeed",
    "AsyncItems",
    "AsyncKv",
    "AsyncPart",
    "AsyncRun",
    "AsyncSubscription",
    "AsyncText",
    "AsyncThread",
    "AsyncThreadline",
    "AsyncToolCall",
    "Batch",
    "CaughtUp",
    "Checkpoints",
    "Closed",
    "ConfigError",
    "ConnectionFailed",
    "Cursor",
    "Ended",
    "Entry",
    "EventPage",
    "Events",
    "Feed",
    "FeedEntry",
    "FellBehind",
    "Hello",
    "Inbox",
    "Item",
    "ItemPage",
    "Items",
    "JsonObject",
    "Kv",
    "ListItem",
    "LoggedEvent",
    "Messages",
    "NotResumed",
    "OpenInterrupt",
    "Part",
    "PoppedItems",
    "ProblemError",
    "ProtocolError",
    "Queue",
    "QueuedRun",
    "Rebased",
    "Reconnecting",
    "Retries",
    "Run",
    "RunEnded",
    "RunPage",
    "RunRecord",
    "StartedRun",
    "StateAt",
    "StopRequested",
    "Stored",
    "StreamFailed",
    "Subscription",
    "Text",
    "Thread",
    "ThreadPage",
    "ThreadRecord",
    "Threadline",
    "ThreadlineError",
    "Timeout",
    "ToolCall",
    "__version__",
    "assistant",
    "common_cursor",
    "system",
    "user",
]
