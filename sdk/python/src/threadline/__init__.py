"""Durable, realtime threads for AI agents: a client of Threadline.

`AsyncThreadline` is the asynchronous client, `Threadline` the synchronous one. `threadline.problems` has the errors of the
server, `threadline.agui` serves agents as endpoints, and `threadline.conversation` builds messages and state from events.
`threadline.kv` has operations on key-value entries, and `threadline.checkpoints` the records of checkpoints.
`threadline.langgraph`, `threadline.openai_agents`, `threadline.pydantic_ai` and `threadline.adk` keep data of these frameworks.
"""

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
from ._version import __version__
from .pipe import StreamFailed

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
