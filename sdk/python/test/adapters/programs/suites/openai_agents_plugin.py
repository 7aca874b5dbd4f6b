"""A plugin of pytest: the tests of the OpenAI Agents SDK get sessions of Threadline where they make those of SQLite."""

from __future__ import annotations

import inspect
import re
from typing import Any, Iterator, List, Optional

import agents
import agents.extensions.memory
import agents.memory
import pytest
from threadline import AsyncThreadline, Threadline
from threadline.openai_agents import ThreadlineSession

USER = "suite"


class Session(ThreadlineSession):
    """A session with the constructor of `SQLiteSession`: a client for each, since the event loop of a test is its own."""

    def __init__(self, session_id: str, db_path: Any = None, *tables: Any, session_settings: Any = None, **more: Any) -> None:
        super().__init__(session_id, AsyncThreadline(user=USER), session_settings=session_settings)

    def close(self) -> Any:
        return _Closed()


class _Closed:
    """The result of `close`, which one kind of session awaits."""

    def __await__(self) -> Iterator[Optional[object]]:
        return iter(())


for module in (agents, agents.memory):
    module.SQLiteSession = Session
agents.extensions.memory.AsyncSQLiteSession = Session


@pytest.fixture(autouse=True)
def no_threads() -> Iterator[None]:
    """The tests use the same ids of sessions, which are unique in a project."""
    yield
    with Threadline(user=USER) as client:
        while listed := client.threads.list().threads:
            for thread in listed:
                client.thread(thread.thread_id).delete()


SQLITE = re.compile(
    r"sqlite3|aiosqlite|threading|monkeypatch|corrupt|\bsession(_\d)?\._\w|\bsession\.(db_path|messages_table)|SQLiteSession\._|_await_mutation|new_event_loop|closed"
)
"""What tests of SQLite's own files, connections and locks name. A client of Threadline has one event loop and an owner."""


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """Leaves out tests without a session, and tests of SQLite itself."""
    used = []
    for item in items:
        text = inspect.getsource(getattr(item, "function", pytest))
        if "SQLiteSession(" in text and not SQLITE.search(text):
            used.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in used])
    items[:] = used
