"""`ThreadlineStore` on a real server, run with the Python that has LangGraph."""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

import pytest
from harness.server import Server
from harness.until import wait_until
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.base import __all__ as names_of_stores
from threadline import AsyncThreadline, ConfigError, Threadline
from threadline.langgraph import ThreadlineStore
from threadline.langgraph import _store_steps as steps
from threadline.problems import KvChanged

TEA = {"text": "Ann likes green tea", "stars": 5}
TRIP = {"text": "Ann was in Rome", "stars": 3}


@pytest.fixture
def store(client: Threadline) -> ThreadlineStore:
    return ThreadlineStore(client)


@pytest.fixture
def filled(store: ThreadlineStore) -> ThreadlineStore:
    store.put(("memories", "ann"), "tea", TEA)
    store.put(("memories", "ann"), "trip", TRIP)
    store.put(("memories", "bob"), "tea", {"text": "Bob likes black coffee", "stars": 5})
    store.put(("rules",), "tone", {"text": "Be friendly."})
    return store


def keys(found: List[Any]) -> List[Tuple[str, ...]]:
    return [(*item.namespace, item.key) for item in found]


def answers(store: ThreadlineStore, ops: List[Any]) -> List[Any]:
    return list(store.batch(ops))


def test_an_item_is_read_as_it_was_written(store: ThreadlineStore) -> None:
    value = {"text": "é 漢字 🎈 \x00\u2028", "deep": [{"a": None, "n": 2**70}], "half": "\ud83d"}
    store.put(("memories", "ann"), "tea", value)
    item = store.get(("memories", "ann"), "tea")
    assert item is not None and (item.value, item.key, item.namespace) == (value, "tea", ("memories", "ann"))
    assert item.created_at == item.updated_at and item.created_at.tzinfo is not None
    store.put(("memories", "ann"), "tea", TEA)
    later = store.get(("memories", "ann"), "tea")
    assert later is not None and later.value == TEA
    assert later.created_at == item.created_at and later.updated_at >= item.updated_at
    store.delete(("memories", "ann"), "tea")
    assert store.get(("memories", "ann"), "tea") is None
    store.delete(("memories", "ann"), "tea")


def test_a_batch_reads_before_it_writes(filled: ThreadlineStore) -> None:
    ops: List[Any] = [
        PutOp(("memories", "ann"), "tea", {"text": "none"}),
        GetOp(("memories", "ann"), "tea"),
        PutOp(("memories", "ann"), "trip", None),
        SearchOp(("memories", "ann")),
        GetOp(("memories", "ann"), "unknown"),
        PutOp(("memories", "ann"), "tea", {"text": "coffee"}),
        ListNamespacesOp(max_depth=1),
    ]
    put, got, deleted, found, missing, _, namespaces = answers(filled, ops)
    assert put is None and deleted is None and missing is None
    assert got.value == TEA and keys(found) == [("memories", "ann", "tea"), ("memories", "ann", "trip")]
    assert namespaces == [("memories",), ("rules",)]
    assert [item.value for item in filled.search(("memories", "ann"))] == [{"text": "coffee"}]
    assert filled.batch([]) == []


def test_searches_filter_and_compare_words(filled: ThreadlineStore) -> None:
    assert len(filled.search(())) == 4
    assert keys(filled.search(("memories",), filter={"stars": 5})) == [("memories", "ann", "tea"), ("memories", "bob", "tea")]
    assert keys(filled.search(("memories",), filter={"stars": {"$gt": 2, "$lt": 5}})) == [("memories", "ann", "trip")]
    found = filled.search((), query="Ann likes tea")
    assert keys(found)[0] == ("memories", "ann", "tea") and found[0].score == 1.0
    assert [item.score for item in found] == sorted((item.score or 0 for item in found), reverse=True)
    assert filled.search((), query="submarine") == [] and filled.search(("mem",)) == []
    assert filled.search((), limit=0) == []


def test_pages_of_a_search_are_as_a_slice_of_the_whole(store: ThreadlineStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "KV_PAGE", 7)
    ops = [PutOp(("n",), f"{number:03}", {"number": number, "text": "one " + "two " * (number % 3)}) for number in range(40)]
    store.batch(ops)
    whole = store.search(("n",), limit=100)
    assert [item.value["number"] for item in whole] == list(range(40))
    odd = store.search(("n",), filter={"text": "one two "}, limit=100)
    assert len(odd) == 13
    by_words = store.search(("n",), query="two", limit=100)
    assert len(by_words) == 26
    for offset, limit in ((0, 5), (3, 20), (10, 10), (30, 100), (100, 1)):
        assert store.search(("n",), offset=offset, limit=limit) == whole[offset : offset + limit]
        part = store.search(("n",), filter={"text": "one two "}, offset=offset, limit=limit)
        assert part == odd[offset : offset + limit]
        assert store.search(("n",), query="two", offset=offset, limit=limit) == by_words[offset : offset + limit]


def test_more_operations_than_a_request_may_have(store: ThreadlineStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "KV_OPS", 10)
    store.batch([PutOp(("many",), str(number), {"n": number}) for number in range(25)])
    got = answers(store, [GetOp(("many",), str(number)) for number in range(26)])
    assert [item and item.value["n"] for item in got] == [*range(25), None]


def test_entries_that_do_not_fit_into_one_answer(store: ThreadlineStore) -> None:
    large = "x" * 900_000
    for part in range(2):
        store.batch([PutOp(("large",), str(part * 10 + number), {"text": large}) for number in range(10)])
    got = answers(store, [GetOp(("large",), str(number)) for number in range(20)])
    assert all(item is not None and item.value["text"] == large for item in got)
    assert len(store.search(("large",), limit=30)) == 20


def test_namespaces(filled: ThreadlineStore) -> None:
    filled.put(("ann",), "x", {"a": 1})
    everything = [("ann",), ("memories", "ann"), ("memories", "bob"), ("rules",)]
    assert filled.list_namespaces() == everything
    assert filled.list_namespaces(limit=2, offset=1) == everything[1:3]
    assert filled.list_namespaces(max_depth=1) == [("ann",), ("memories",), ("rules",)]
    assert filled.list_namespaces(prefix=("memories",)) == everything[1:3]
    assert filled.list_namespaces(suffix=("ann",)) == everything[:2]
    # The server's label in front of all namespaces must not be found.
    assert filled.list_namespaces(suffix=("*", "ann")) == [("memories", "ann")]
    assert filled.list_namespaces(prefix=("*", "bob")) == [("memories", "bob")]


def test_items_expire_and_reading_extends_their_lives(client: Threadline) -> None:
    store = ThreadlineStore(client, ttl={"default_ttl": 60.0, "refresh_on_read": False})
    assert store.supports_ttl
    store.put(("short",), "gone", {"a": 1}, ttl=1 / 60)
    store.put(("short",), "kept", {"a": 2})
    store.put(("short",), "forever", {"a": 3}, ttl=None)

    def entry(key: str) -> Any:
        return client.kv.get(["langgraph", "short"], key)

    first = entry("kept")
    assert first.expires_at is not None and entry("forever").expires_at is None
    assert store.get(("short",), "kept") is not None and entry("kept") == first
    wait_until(lambda: store.get(("short",), "gone") is None)
    assert keys(store.search(("short",), refresh_ttl=True)) == [("short", "forever"), ("short", "kept")]
    second = entry("kept")
    assert second.expires_at > first.expires_at and second.value == {"a": 2}
    assert second.created_at == first.created_at
    assert store.get(("short",), "kept", refresh_ttl=True) is not None
    assert entry("kept").expires_at > second.expires_at


def test_a_write_by_another_during_a_read_is_not_overwritten(client: Threadline) -> None:
    store = ThreadlineStore(client)
    for key in "abc":
        store.put(("short",), key, {"old": key}, ttl=10)
    asking = steps.Steps([SearchOp(("short",))])
    assert asking.asked is not None
    asking.answer(client.kv.batch(asking.asked))
    store.put(("short",), "b", {"new": "b"}, ttl=10)
    assert [getattr(write, "key") for write in asking.asked] == ["a", "b", "c"]
    with pytest.raises(KvChanged) as refused:
        client.kv.batch(asking.asked)
    asking.fail(refused.value)
    assert [getattr(write, "key") for write in asking.asked] == ["a", "c"]
    asking.answer(client.kv.batch(asking.asked))
    assert asking.asked is None and [item.key for item in asking.results[0]] == ["a", "b", "c"]
    assert [item.value for item in store.search(("short",))] == [{"old": "a"}, {"new": "b"}, {"old": "c"}]


@pytest.mark.parametrize("namespace", [("a.b",), ("",), ("a", "b\0"), ("a", 7)])
def test_labels_of_operations_are_checked(store: ThreadlineStore, namespace: Any) -> None:
    ops: List[Any] = [
        GetOp(namespace, "k"),
        PutOp(namespace, "k", {"a": 1}),
        PutOp(namespace, "k", None),
        SearchOp(namespace),
        ListNamespacesOp((MatchCondition("suffix", namespace),)),
    ]
    for op in ops:
        with pytest.raises(InvalidNamespaceError):
            store.batch([GetOp(("fine",), "k"), op])
        if "validate_op_namespace" in names_of_stores:
            from langgraph.store.base import validate_op_namespace

            with pytest.raises(InvalidNamespaceError):
                validate_op_namespace(op)


def test_the_root_of_all_namespaces_is_out_of_reach(store: ThreadlineStore, client: Threadline) -> None:
    client.kv.put(["other"], "k", {"a": 1})
    store.put(("memories",), "k", {"a": 2})
    assert [item.value for item in store.search(())] == [{"a": 2}]
    assert store.get(("other",), "k") is None and store.list_namespaces() == [("memories",)]


def test_each_user_has_own_items(filled: ThreadlineStore, server: Server) -> None:
    with Threadline(server.url, api_key=server.api_key, user="someone-else") as other:
        assert ThreadlineStore(other).search(()) == []


async def test_the_asynchronous_half(connect: Callable[[], AsyncThreadline]) -> None:
    async with connect() as client:
        store = ThreadlineStore(client)
        await store.aput(("memories", "ann"), "tea", TEA, ttl=5)
        item = await store.aget(("memories", "ann"), "tea")
        assert item is not None and item.value == TEA
        assert keys(await store.asearch((), query="green")) == [("memories", "ann", "tea")]
        assert await store.alist_namespaces(max_depth=1) == [("memories",)]
        with pytest.raises(ConfigError, match="pass a Threadline"):
            store.get(("memories", "ann"), "tea")
        await store.adelete(("memories", "ann"), "tea")
        assert await store.asearch(()) == []


async def test_a_synchronous_client_serves_asynchronous_graphs(filled: ThreadlineStore) -> None:
    item = await filled.aget(("memories", "ann"), "tea")
    assert item is not None and item.value == TEA
    assert len(await filled.asearch(("memories",))) == 3


def test_what_cannot_work_is_refused(client: Threadline) -> None:
    with pytest.raises(ConfigError, match="no embeddings"):
        ThreadlineStore(client, index={"dims": 3, "embed": lambda texts: [[0.0] * 3 for _ in texts]})
    with pytest.raises(ConfigError, match="pass a Threadline"):
        ThreadlineStore("http://localhost:7420")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="JSON"):
        ThreadlineStore(client).put(("a",), "b", {"c": object()})
