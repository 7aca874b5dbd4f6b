"""LangGraph's own checks of checkpointers, for both halves of `ThreadlineSaver` and both kinds of clients."""

from __future__ import annotations

from typing import Any, AsyncIterator, Callable, Set, Type

from harness.documents import ROOT
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.report import CapabilityReport
from threadline import AsyncThreadline, Threadline
from threadline.langgraph import ThreadlineSaver

ALL = {"put", "put_writes", "get_tuple", "list", "delete_thread", "delete_for_runs", "copy_thread", "prune"}


class Synchronous(ThreadlineSaver):
    """The checks are asynchronous, so these methods make synchronous calls."""

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[Any]:
        for one in self.list(config, **options):
            yield one

    async def aput(self, *arguments: Any) -> Any:
        return self.put(*arguments)

    async def aput_writes(self, *arguments: Any, **options: Any) -> None:
        self.put_writes(*arguments, **options)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Any) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)


async def judged(saver: ThreadlineSaver, capabilities: Set[str] = ALL) -> CapabilityReport:
    async def make() -> AsyncIterator[ThreadlineSaver]:
        yield saver

    return await validate(checkpointer_test(name=type(saver).__name__)(make), capabilities=capabilities)


def passed(report: CapabilityReport) -> Set[str]:
    failures = [failure for result in report.results.values() for failure in result.failures]
    assert not failures, failures
    return {name for name, result in report.results.items() if result.passed}


async def test_an_asynchronous_client(connect: Callable[[], AsyncThreadline]) -> None:
    async with connect() as client:
        report = await judged(ThreadlineSaver(client))
    assert passed(report) == ALL
    tests = sum(result.tests_passed for result in report.results.values())
    count = f"{len(passed(report))} of {len(ALL)} capabilities and all {tests} tests of `langgraph-checkpoint-conformance`"
    print(count)
    for page in ("README.md", "docs/langgraph.md"):
        assert count in (ROOT / page).read_text(), f"{page} does not say: {count}"


async def test_a_synchronous_client(client: Threadline) -> None:
    assert passed(await judged(ThreadlineSaver(client))) == ALL


async def test_synchronous_methods(client: Threadline) -> None:
    assert passed(await judged(Synchronous(client))) == ALL


class WithoutParents(ThreadlineSaver):
    async def aput(self, config: Any, *arguments: Any) -> Any:
        given = {name: value for name, value in config["configurable"].items() if name != "checkpoint_id"}
        return await super().aput({"configurable": given}, *arguments)


class WithoutWrites(ThreadlineSaver):
    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        await super().aput_writes(config, writes[:1], task_id, task_path)


class KeepsTooMuch(ThreadlineSaver):
    async def aprune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        if strategy == "delete":
            await super().aprune(thread_ids, strategy=strategy)


async def test_the_checks_find_planted_faults(connect: Callable[[], AsyncThreadline]) -> None:
    faults: dict[Type[ThreadlineSaver], Set[str]] = {
        WithoutParents: {"put", "get_tuple"},
        WithoutWrites: {"put_writes"},
        KeepsTooMuch: {"prune"},
    }
    async with connect() as client:
        for faulty, capabilities in faults.items():
            report = await judged(faulty(client), capabilities)
            assert {name for name, result in report.results.items() if result.failures} == capabilities
