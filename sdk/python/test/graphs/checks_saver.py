"""`ThreadlineSaver` on a real server: what LangGraph's own checks do not look at."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any, Callable, Dict, List
from uuid import uuid4

import pytest
from harness.server import Server
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from threadline import AsyncThreadline, ConfigError, Threadline
from threadline import checkpoints as wire
from threadline.langgraph import ThreadlineSaver
from threadline.langgraph import saver as module
from threadline.problems import ThreadExists, ThreadNotFound


@pytest.fixture
def saver(client: Threadline) -> ThreadlineSaver:
    return ThreadlineSaver(client)


def config(thread_id: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **more}}


def put(saver: ThreadlineSaver, at: Any, values: Dict[str, Any], versions: Dict[str, Any], new: Any = None, **metadata: Any) -> Any:
    """Stores a checkpoint with these channels, of which those in `new` have changed."""
    checkpoint: Any = {**empty_checkpoint(), "id": str(uuid6()), "channel_values": values, "channel_versions": versions}
    described: Any = {"source": "loop", "step": 0, **metadata}
    return saver.put(at, checkpoint, described, versions if new is None else new)


def values(saver: ThreadlineSaver, at: Any) -> Dict[str, Any]:
    found = saver.get_tuple(at)
    assert found is not None
    return found.checkpoint["channel_values"]


def test_versions_grow_and_differ_between_branches(saver: ThreadlineSaver) -> None:
    first = saver.get_next_version(None, None)
    branches = [saver.get_next_version(first, None) for _ in range(2)]
    assert branches[0] != branches[1] and all(first < one for one in branches)
    current: Any = 9
    for _ in range(3):
        later = saver.get_next_version(current, None)
        assert isinstance(current, int) or later > current
        current = later
    assert current.startswith(f"{12:032d}.")


class Counting(ThreadlineSaver):
    """Versions as the base class has them."""

    def get_next_version(self, current: Any, channel: None) -> Any:
        return BaseCheckpointSaver.get_next_version(self, current, channel)


@pytest.mark.parametrize(("kind", "kept"), [(ThreadlineSaver, ["left", "right"]), (Counting, ["left", "left"])])
def test_branches_of_a_checkpoint_keep_their_values(client: Threadline, kind: Any, kept: List[str]) -> None:
    """With counters for versions, the second branch would have the value of the first one."""
    saver = kind(client)
    first = saver.get_next_version(None, None)
    root = put(saver, config(str(uuid4())), {"side": "none"}, {"side": first})
    branches = [put(saver, root, {"side": side}, {"side": saver.get_next_version(first, None)}) for side in ("left", "right")]
    assert [values(saver, branch)["side"] for branch in branches] == kept
    assert values(saver, root) == {"side": "none"}


def test_a_channel_without_a_value_stays_without_one(saver: ThreadlineSaver) -> None:
    at = put(saver, config("empty"), {"a": 1, "b": None}, {"a": "1", "b": "1", "gone": "2"})
    assert values(saver, at) == {"a": 1, "b": None}
    later = put(saver, at, {"a": 1, "b": None, "gone": "here"}, {"a": "1", "b": "1", "gone": "3"}, {"gone": "3"})
    assert values(saver, later) == {"a": 1, "b": None, "gone": "here"} and values(saver, at) == {"a": 1, "b": None}


class Unsorted(ThreadlineSaver):
    """A planted fault: writes in the order of their tasks' ids, which are hashes."""

    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        return found and found._replace(pending_writes=sorted(found.pending_writes or []))


@pytest.mark.parametrize(("kind", "ordered"), [(ThreadlineSaver, True), (Unsorted, False)])
def test_writes_come_in_the_order_of_their_tasks(client: Threadline, kind: Any, ordered: bool) -> None:
    saver = kind(client)
    at = put(saver, config(f"writes-{uuid4()}"), {}, {})
    saver.put_writes(at, [("a", 1), ("b", 2)], "task-1", "~2")
    saver.put_writes(at, [("a", 3)], "task-3", "~1")
    saver.put_writes(at, [("a", 4)], "task-2", "~1")
    saver.put_writes(at, [], "task-0")
    wanted = [("task-2", "a", 4), ("task-3", "a", 3), ("task-1", "a", 1), ("task-1", "b", 2)]
    assert (saver.get_tuple(at).pending_writes == wanted) is ordered
    assert [one.pending_writes for one in ThreadlineSaver(client).list(at)] == [wanted]


def test_a_write_stays_and_a_special_one_is_replaced(saver: ThreadlineSaver) -> None:
    at = put(saver, config("special"), {}, {})
    for number in (1, 2):
        saver.put_writes(at, [("a", number), (ERROR, f"failure {number}"), (INTERRUPT, f"question {number}")], "task")
    found = saver.get_tuple(at)
    assert found is not None and found.pending_writes is not None
    assert sorted(found.pending_writes) == [
        ("task", ERROR, "failure 2"),
        ("task", INTERRUPT, "question 2"),
        ("task", "a", 1),
    ]


def test_writes_may_come_before_their_checkpoint(saver: ThreadlineSaver) -> None:
    checkpoint_id = str(uuid6())
    at = config("early", checkpoint_id=checkpoint_id)
    saver.put_writes(at, [("a", 1)], "task")
    assert saver.get_tuple(at) is None
    saver.put(config("early"), {**empty_checkpoint(), "id": checkpoint_id}, {"source": "loop"}, {})
    found = saver.get_tuple(at)
    assert found is not None and found.pending_writes == [("task", "a", 1)]


def test_a_checkpoint_is_whole_after_earlier_ones_were_deleted(saver: ThreadlineSaver) -> None:
    at = put(saver, config("whole"), {"a": "kept", "b": 1}, {"a": "1", "b": "1"})
    saver.delete_thread("whole")
    later = put(saver, at, {"a": "kept", "b": 2}, {"a": "1", "b": "2"}, {"b": "2"})
    assert values(saver, later) == {"a": "kept", "b": 2}
    assert [one.config for one in saver.list(config("whole"))] == [later]


def test_large_values_take_several_requests(saver: ThreadlineSaver) -> None:
    large = {name: name * 5_000_000 for name in "abc"}
    at = put(saver, config("large"), {**large, "small": 1}, {name: "1" for name in [*large, "small"]})
    assert values(saver, at) == {**large, "small": 1}
    (listed,) = saver.list(config("large"))
    assert listed.checkpoint["channel_values"] == {**large, "small": 1}


def test_blobs_are_grouped_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "CHECKPOINT_BYTES", 10)
    blobs = [wire.Blob(name, "1", "bytes", b"x" * size) for name, size in (("a", 0), ("b", 3), ("c", 60), ("d", 0))]
    assert [[one["channel"] for one in group] for group in wire.groups(blobs)] == [["a", "b"], ["c"], ["d"]]
    assert wire.groups([]) == []


def test_a_list_is_read_in_pages(saver: ThreadlineSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_PAGE", 3)
    at = config("pages")
    stored: List[Any] = []
    for step in range(10):
        at = put(saver, at, {"n": step}, {"n": str(step)}, step=step)
        stored.insert(0, at)
    found = list(saver.list(config("pages")))
    assert [one.config for one in found] == stored
    assert [one.checkpoint["channel_values"]["n"] for one in found] == list(range(9, -1, -1))
    assert [one.parent_config for one in found] == [*stored[1:], None]
    for limit in (0, 1, 3, 4, 50):
        assert [one.config for one in saver.list(config("pages"), limit=limit)] == stored[:limit]
    before = [one.config for one in saver.list(config("pages"), before=stored[2], limit=4)]
    assert before == stored[3:7]
    assert [one.config for one in saver.list(config("pages"), filter={"step": 4})] == [stored[5]]
    assert [one.config for one in saver.list(stored[5])] == [stored[5]]
    assert list(saver.list(stored[5], filter={"step": 5})) == [] and list(saver.list(stored[5], limit=0)) == []
    assert list(saver.list(stored[5], before=stored[5])) == []


def test_a_list_over_all_threads_and_namespaces(saver: ThreadlineSaver) -> None:
    for thread_id in ("one", "two"):
        for ns in ("", "child:1"):
            put(saver, config(thread_id, checkpoint_ns=ns), {}, {}, kind=ns)
    places = [one.config["configurable"] for one in saver.list(None)]
    assert sorted((place["thread_id"], place["checkpoint_ns"]) for place in places) == [
        (thread_id, ns) for thread_id in ("one", "two") for ns in ("", "child:1")
    ]
    found = list(saver.list(None, filter={"kind": "child:1"}))
    assert sorted(one.config["configurable"]["thread_id"] for one in found) == ["one", "two"]
    without_ns: Any = {"configurable": {"thread_id": "one"}}
    assert len(list(saver.list(without_ns))) == 2


def test_metadata_are_read_as_they_were_written(saver: ThreadlineSaver) -> None:
    given: Any = {"configurable": {"thread_id": "metadata", "checkpoint_ns": "", "plan": "free"}, "metadata": {"tries": 3}}
    at = put(saver, given, {}, {}, parents={"": "x"}, run_id="run-1", text="é 🎈")
    found = saver.get_tuple(at)
    assert found is not None
    assert found.metadata == {
        "source": "loop", "step": 0, "parents": {"": "x"}, "run_id": "run-1", "text": "é 🎈", "plan": "free", "tries": 3
    }  # fmt: skip


@pytest.mark.parametrize("saving", [lambda client: ThreadlineSaver(client), lambda client: InMemorySaver()])
def test_metadata_are_those_of_the_saver_in_memory(client: Threadline, saving: Callable[[Threadline], Any]) -> None:
    """Values that JSON lacks come back, and a filter still finds the others."""
    saver, odd = saving(client), [float("nan"), float("inf"), {"at": datetime(2026, 1, 2), "half": "a b"}]
    at = put(saver, config("odd"), {}, {}, odd=odd, score=float("nan"), plain=1)
    found = saver.get_tuple(at)
    assert found is not None
    assert repr(sorted(found.metadata.items())) == repr(
        [("odd", odd), ("plain", 1), ("score", float("nan")), ("source", "loop"), ("step", 0)]
    )
    assert [one.config for one in saver.list(config("odd"), filter={"plain": 1})] == [at]
    assert list(saver.list(config("odd"), filter={"plain": 2})) == []
    with pytest.raises(TypeError):
        put(saver, config("odd"), {}, {}, thing=object())


def test_metadata_may_have_half_a_surrogate_pair(saver: ThreadlineSaver) -> None:
    at = put(saver, config("half"), {}, {}, half="a\ud800", plain=1)
    assert [one.metadata.get("half") for one in saver.list(at, filter={"plain": 1})] == ["a\ud800"]


@pytest.mark.parametrize("run_id", ["r" * 257, "é" * 129, "a\nb", "half \ud800", "short"])
def test_a_run_may_have_any_id(saver: ThreadlineSaver, run_id: str, user: str) -> None:
    ids = [config(f"{user}-run"), config(f"{user}-another")]
    put(saver, ids[0], {}, {}, run_id=run_id)
    put(saver, ids[1], {}, {}, run_id=run_id[:-1])
    found = saver.get_tuple(ids[0])
    assert found is not None and found.metadata["run_id"] == run_id
    saver.delete_for_runs([run_id])
    assert saver.get_tuple(ids[0]) is None and saver.get_tuple(ids[1]) is not None


def test_a_thread_is_made_for_its_user_and_outlives_its_checkpoints(server: Server, user: str) -> None:
    with Threadline(server.url, api_key=server.api_key) as client:
        saver = ThreadlineSaver(client)
        thread_id = f"thread-of-{user}"
        put(saver, config(thread_id, user_id=user), {"a": 1}, {"a": "1"})
        assert client.thread(thread_id).get().user_id == user
        assert values(saver, config(thread_id)) == {"a": 1}
        copied = f"copy-for-{user}"
        saver.copy_thread(thread_id, copied)
        assert client.thread(copied).get().user_id == user and values(saver, config(copied)) == {"a": 1}
        with pytest.raises(ConfigError, match="user_id in the config"):
            put(saver, config(f"nobody's-{user}"), {"a": 1}, {"a": "1"})
        saver.copy_thread(f"unknown-of-{user}", f"never-made-for-{user}")
        with pytest.raises(ThreadNotFound):
            client.thread(f"never-made-for-{user}").get()
        saver.delete_thread(thread_id)
        assert saver.get_tuple(config(thread_id)) is None and client.thread(thread_id).get().thread_id == thread_id
        ThreadlineSaver(client, delete_threads=True).delete_thread(thread_id)
        with pytest.raises(ThreadNotFound):
            client.thread(thread_id).get()


def test_the_user_of_the_client_decides(client: Threadline, saver: ThreadlineSaver, user: str) -> None:
    put(saver, config("own", user_id="somebody-else"), {"a": 1}, {"a": "1"})
    assert client.thread("own").get().user_id == user


def test_users_do_not_see_each_other(saver: ThreadlineSaver, server: Server) -> None:
    put(saver, config("same-id"), {"a": 1}, {"a": "1"}, run_id="run-of-both")
    with Threadline(server.url, api_key=server.api_key, user="another-user") as other:
        others = ThreadlineSaver(other)
        assert others.get_tuple(config("same-id")) is None and list(others.list(None)) == []
        others.delete_for_runs(["run-of-both"])
        with pytest.raises(ThreadExists):
            put(others, config("same-id"), {"a": 2}, {"a": "1"})
        others.delete_thread("same-id")
    assert values(saver, config("same-id")) == {"a": 1}


def test_everyday_work_logs_no_warning(saver: ThreadlineSaver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "threadline")
    saver.get_tuple(config("quiet"))
    put(saver, config("quiet"), {"a": 1}, {"a": "1"})
    saver.delete_thread("never-there")
    assert len(caplog.records) >= 4 and {record.levelno for record in caplog.records} == {logging.DEBUG}


def test_values_that_do_not_fit_into_one_answer(client: Threadline, caplog: pytest.LogCaptureFixture) -> None:
    place = client.thread(client.threads.create("whole-answers").thread_id).checkpoints
    blobs = [wire.Blob(name, "1", "bytes", name.encode() * 4_000_000) for name in "ab"]
    channels = [(blob.channel, blob.version) for blob in blobs]
    place.put(wire.Checkpoint("", "1", "json", b"{}", {}, channels, blobs=blobs))
    writes = [wire.Write("task", "", number, "a", "bytes", b"w" * 6_500_000) for number in range(3)]
    for write in writes:
        place.put_writes("", "1", [write])
    caplog.set_level(logging.DEBUG, "threadline")
    found = place.get()
    assert found.blobs == blobs and found.writes == writes
    asked = [record.getMessage().split(":")[0] for record in caplog.records]
    first, *others = [line.rsplit("/", 1)[1] for line in asked]
    assert first == "checkpoints" and set(others) == {"blobs", "writes"}
    assert place.list().checkpoints == [found]
    (head,) = place.list(fields="head").checkpoints
    assert [(blob.channel, blob.data) for blob in head.blobs] == [("a", b""), ("b", b"")]


async def test_an_asynchronous_client_has_no_synchronous_calls(connect: Callable[[], AsyncThreadline]) -> None:
    async with connect() as client:
        saver = ThreadlineSaver(client)
        with pytest.raises(ConfigError, match="pass a Threadline"):
            saver.get_tuple(config("any"))
        assert await saver.aget_tuple(config("any")) is None
        with pytest.raises(ConfigError, match="keep_latest or delete"):
            await saver.aprune(["any"], strategy="keep_first")
