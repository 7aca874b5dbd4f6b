"""Fixtures of LangGraph's own tests, with the checkpointer and the store of Threadline. The file takes the place of their `conftest.py`."""

from __future__ import annotations

from typing import Any, AsyncIterator, Iterator, List
from uuid import UUID, uuid4

import pytest
from langgraph.cache.memory import InMemoryCache
from threadline import AsyncThreadline, Threadline
from threadline.langgraph import ThreadlineSaver, ThreadlineStore


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def deterministic_uuids(mocker: Any) -> Any:
    ids = (UUID(f"00000000-0000-4000-8000-{number:012}", version=4) for number in range(10_000))
    return mocker.patch("uuid.uuid4", side_effect=ids)


@pytest.fixture(params=["sync", "async", "exit"])
def durability(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def cache() -> Any:
    return InMemoryCache()


@pytest.fixture
def client() -> Iterator[Threadline]:
    """The tests use the same ids of threads, which are unique in a project, so each test deletes its threads."""
    with Threadline(user="suite") as client:
        yield client
        while listed := client.threads.list().threads:
            for thread in listed:
                client.thread(thread.thread_id).delete()


@pytest.fixture
def sync_checkpointer(client: Threadline) -> ThreadlineSaver:
    return ThreadlineSaver(client)


@pytest.fixture
async def async_checkpointer(client: Threadline) -> AsyncIterator[ThreadlineSaver]:
    async with AsyncThreadline(user="suite") as own:
        yield ThreadlineSaver(own)


@pytest.fixture
def sync_store() -> Iterator[ThreadlineStore]:
    with Threadline(user=f"user-{uuid4()}") as client:
        yield ThreadlineStore(client)


@pytest.fixture
async def async_store() -> AsyncIterator[ThreadlineStore]:
    async with AsyncThreadline(user=f"user-{uuid4()}") as client:
        yield ThreadlineStore(client)


OURS = {"sync_checkpointer", "async_checkpointer", "sync_store", "async_store"}


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """Leaves out tests that use neither a checkpointer nor a store."""
    used = [item for item in items if OURS.intersection(getattr(item, "fixturenames", ()))]
    config.hook.pytest_deselected(items=[item for item in items if item not in used])
    items[:] = used
