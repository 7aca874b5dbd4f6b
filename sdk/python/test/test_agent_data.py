"""Item lists and key-value entries: what frameworks keep beside the logs."""

from __future__ import annotations

from typing import Any

import pytest
from harness.proxy import Proxy
from harness.server import Server
from threadline import AsyncThreadline, ConfigError, ItemPage, Threadline
from threadline.checkpoints import Checkpoint, needed
from threadline.kv import Delete, Get, ListNamespaces, Match, Put, Search
from threadline.problems import InvalidRequest, ItemsChanged, ItemsConflict, KvChanged, ThreadNotFound

BIG = 2**60 + 1
AWKWARD: Any = {"n": BIG, "half": "a\ud800b", "\u2028": [None, 1.5, ""], "deep": {"": {}}}


async def test_items_are_kept_in_order(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = client.thread((await client.threads.create()).thread_id)
        items = thread.items("session")
        page = await items.page()
        assert (page.tag, page.count, page.items, page.has_more) == (None, 0, [], False)
        added = await items.append([AWKWARD, AWKWARD, 3])
        assert (added.first_pos, added.last_pos, added.count) == (1, 3, 3)
        assert [one.item async for one in items] == [AWKWARD, AWKWARD, 3]
        assert [one.pos for one in (await items.page(limit=2)).items] == [2, 3]
        page = await items.page(limit=1, before=3)
        assert [one.pos for one in page.items] == [2] and page.has_more and page.tag == added.tag
        popped = await items.pop(2)
        assert [one.item for one in popped.items] == [AWKWARD, 3] and popped.count == 1
        replaced = await items.replace(["new"], if_tag=popped.tag)
        assert (replaced.count, replaced.first_pos) == (1, 4)
        emptied = await items.replace([])
        assert (emptied.first_pos, emptied.last_pos, emptied.count) == (None, None, 0)
        assert emptied.tag == (await items.page()).tag
        assert (await items.pop()).items == []
        with pytest.raises(ThreadNotFound):
            await client.thread("missing").items("session").append([1])


async def test_long_lists_are_read_page_by_page(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = client.thread((await client.threads.create()).thread_id)
        items = thread.items("long")
        await items.append(range(2_500))
        assert [one.item async for one in items] == list(range(2_500))
        large = thread.items("large")
        for text in "abc":
            await large.append([text * 7_000_000])
        assert not (await large.page(limit=2)).items[0].item.startswith("a")
        assert [one.item[0] async for one in large] == ["a", "b", "c"]


async def test_a_whole_list_is_read_as_it_was_at_one_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncThreadline(server.url) as client:
        items = client.thread((await client.threads.create()).thread_id).items("session")
        assert (await items.read()).items == []
        await items.append(range(1_500))
        assert [one.item for one in (await items.read(1_200)).items] == list(range(300, 1_500))
        page = items.page

        async def changed(**range_: Any) -> ItemPage:
            found = await page(**range_)
            if found.count == 1_500:
                await items.replace(["a", "b"])
            return found

        monkeypatch.setattr(items, "page", changed)
        whole = await items.read()
        assert [one.item for one in whole.items] == ["a", "b"] and whole.tag == (await page()).tag


async def test_conditions_and_keys_of_lists(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        thread = client.thread((await client.threads.create()).thread_id)
        items = thread.items("session")
        first = await items.append(["a"], if_tag=None, key="once")
        assert await items.append(["a"], if_tag=None, key="once") == first
        with pytest.raises(ItemsConflict):
            await items.append(["b"], if_tag=None, key="once")
        with pytest.raises(ItemsChanged):
            await items.append(["b"], if_tag=None)
        with pytest.raises(ItemsChanged):
            await items.pop(if_tag="another")
        written = Put(["states"], "s", {"n": 1}, if_tag=None, thread_id=thread.thread_id)
        second = await items.append(["b"], if_tag=first.tag, kv=[written])
        with pytest.raises(KvChanged):
            await items.append(["c"], kv=[written])
        assert [one.item async for one in items] == ["a", "b"] and (await items.page()).tag == second.tag
        entry = await client.kv.get(["states"], "s")
        assert entry is not None and entry.value == {"n": 1}
        other = client.thread((await client.threads.create()).thread_id).items("session")
        assert (await other.copy(thread.thread_id, upto=1)).count == 1
        assert (await other.copy(thread.thread_id, "session")).count == 3
        await thread.delete()
        assert [one.item async for one in other] == ["a", "a", "b"]
        assert await client.kv.get(["states"], "s") is None


async def test_a_lost_answer_costs_nothing(server: Server, proxy: Proxy) -> None:
    async with AsyncThreadline(proxy.url) as client:
        thread = client.thread((await client.threads.create()).thread_id)
        items = thread.items("session")
        proxy.swallow_answers = 1
        assert (await items.append(["a", "b", "c"])).count == 3
        proxy.swallow_answers = 1
        assert [one.item for one in (await items.pop(2)).items] == ["b", "c"]
        assert [one.item async for one in items] == ["a"]
        proxy.swallow_answers = 1
        tag = await client.kv.put(["lost"], "k", 1, if_tag=None)
        proxy.swallow_answers = 1
        results = await client.kv.batch([Put(["lost"], "k", 2, if_tag=tag), Put(["lost"], "l", 3, if_tag=None, tag="mine")])
        assert results[1] == "mine" and proxy.swallow_answers == 0
        with pytest.raises(KvChanged) as caught:
            await client.kv.batch([Get(["lost"], "k"), Put(["lost"], "k", 4, if_tag=tag)])
        assert caught.value.problem["index"] == 1
        entry = await client.kv.get(["lost"], "k")
        assert entry is not None and (entry.value, entry.tag) == (2, results[0])
        proxy.swallow_answers = 1
        assert await client.kv.delete(["lost"], "k", if_tag=entry.tag), "the first result"
        assert proxy.swallow_answers == 0 and await client.kv.get(["lost"], "k") is None


async def test_entries(server: Server) -> None:
    async with AsyncThreadline(server.url, user="ann") as client:
        kv = client.kv
        assert await kv.get(["memories"], "tea") is None
        tag = await kv.put(["memories", "a"], "tea", AWKWARD)
        await kv.put(["memories", "b"], "trip", {"text": "Ann was in Rome", "stars": 5}, ttl_seconds=3600)
        entry = await kv.get(["memories", "a"], "tea")
        assert entry is not None and (entry.ns, entry.key, entry.value, entry.tag) == (["memories", "a"], "tea", AWKWARD, tag)
        assert entry.expires_at is None and entry.score is None
        found = await kv.search(["memories"], filter={"stars": {"$gte": 4}}, query="rome paris")
        assert [(one.key, one.score) for one in found.items] == [("trip", 0.5)] and found.items[0].expires_at
        assert (found.scanned, found.cursor) == (2, None)
        first = await kv.search(limit=1)
        rest = await kv.search(cursor=first.cursor)
        assert [one.key for one in first.items + rest.items] == ["tea", "trip"]
        assert (await kv.namespaces([Match("suffix", ["*", "b"])])).namespaces == [["memories", "b"]]
        assert (await kv.namespaces(max_depth=1)).namespaces == [["memories"]]
        assert await kv.delete(["memories", "b"], "trip") and not await kv.delete(["memories", "b"], "trip")
        assert await kv.batch([]) == []
        thread = await client.threads.create()
        await kv.put(["short"], "k", 1, ttl_seconds=60, thread_id=thread.thread_id)
        before = await kv.get(["short"], "k")
        assert await kv.touch(["short"], "k", ttl_seconds=3600) and not await kv.touch(["short"], "none")
        after = await kv.get(["short"], "k")
        assert before and after and after.expires_at and before.expires_at and after.expires_at > before.expires_at
        assert {**vars(after), "expires_at": None} == {**vars(before), "expires_at": None}, "nothing else has changed"
        await client.thread(thread.thread_id).delete()
        assert await kv.get(["short"], "k") is None, "it still goes with its thread"
        get, put, removed, page, listed = await kv.batch(
            [
                Get(["memories", "a"], "tea"),
                Put(["memories", "a"], "milk", True, tag="t1"),
                Delete(["memories", "a"], "tea", if_tag=tag),
                Search(["memories"]),
                ListNamespaces(),
            ]
        )
        assert (get, put, removed) == (entry, "t1", True)
        assert [one.key for one in page.items] == ["tea"]  # type: ignore[union-attr]
        assert listed.namespaces == [["memories", "a"]]  # type: ignore[union-attr]
        with pytest.raises(ConfigError, match="list of labels"):
            await kv.get("memories", "tea")
        with pytest.raises(InvalidRequest):
            await kv.put(["memories"], "large", "x" * 1_100_000)
    async with AsyncThreadline(server.url, user="bob") as client:
        assert (await client.kv.search()).items == []


def test_a_checkpoint_that_is_its_own_ancestor_ends_the_search_for_ancestors() -> None:
    def head(id: str, parent_id: str) -> Checkpoint:
        metadata = {"counters_since_delta_snapshot": {"c": 1}}
        return Checkpoint("", id, "json", b"", metadata, [("c", id)], parent_id)

    assert needed([head("1", "1")]) == {"1"}
    assert needed([head("1", "2"), head("2", "1"), head("0", "0")]) == {"1", "2"}


def test_the_synchronous_client_does_the_same(server: Server) -> None:
    with Threadline(server.url, user="cleo") as client:
        items = client.thread(client.threads.create().thread_id).items("session")
        items.append(["a", "b"], kv=[Put(["s"], "k", 1)])
        assert [one.item for one in items] == ["a", "b"]
        assert [one.item for one in items.pop().items] == ["b"]
        assert [one.key for one in client.kv.search().items] == ["k"]
