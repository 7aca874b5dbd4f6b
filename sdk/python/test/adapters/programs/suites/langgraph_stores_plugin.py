"""A plugin of pytest: tests of LangGraph's own stores get stores of Threadline."""

from __future__ import annotations

import inspect
import re
from contextlib import contextmanager
from typing import Any, Iterator, List
from uuid import uuid4

import langgraph.store.memory
import langgraph.store.sqlite
import pytest
from threadline import Threadline
from threadline.langgraph import ThreadlineStore


class Store(ThreadlineStore):
    """A store of a new user, with the constructors of other stores."""

    def __init__(self, *given: Any, index: object = None, ttl: Any = None, **more: Any) -> None:
        super().__init__(Threadline(user=f"user-{uuid4()}"), index=index, ttl=ttl)

    @classmethod
    @contextmanager
    def from_conn_string(cls, given: str, **options: Any) -> Iterator[Store]:
        yield cls(**options)

    def setup(self) -> None:
        """Threadline has no tables to create."""


langgraph.store.memory.InMemoryStore = Store
langgraph.store.sqlite.SqliteStore = Store

OTHERS = re.compile(r"embed|vector|sweep|_data\b|_vectors|\bconn\b|cursor|sqlite_vec|Async|MockStore|AsyncBatchedBaseStore")
"""What tests name that are of searches by vectors, of tables, or of classes that are no stores."""


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """Leaves out tests without a store, and tests of what Threadline does not have."""
    used = []
    for item in items:
        text = inspect.getsource(getattr(item, "function", pytest))
        if ("InMemoryStore(" in text or "store" in getattr(item, "fixturenames", ())) and not OTHERS.search(text):
            used.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in used])
    items[:] = used
