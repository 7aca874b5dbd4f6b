"""Measures the speed of the package, and prints the figures.

usage: bench.py [URL] [--typescript DIR] [--rounds N]

URL: a server. Without it, the program named by THREADLINE is started in development mode; figures of debug builds say little.
--typescript: the folder of the built TypeScript package (default: ../typescript), which is measured beside this one if it is
built. The saver of LangGraph is measured if this Python has LangGraph. What is compared is measured in turns, since other
processes disturb both, and the figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

PACKAGE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PACKAGE / "src"))

from threadline import AsyncThreadline, Threadline  # noqa: E402
from threadline._process import ServerProcess  # noqa: E402

EVENTS = 20_000
CHECKPOINTS = 1_000
USER = "bench"


def main() -> None:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--typescript", type=Path, default=PACKAGE.parent / "typescript")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    server: Optional[ServerProcess] = None
    if given.url is None:
        server = ServerProcess(os.environ.get("THREADLINE", "threadline"))
    try:
        url = given.url or (server.url if server else "")
        imports(given.rounds)
        appends(url, given.typescript, given.rounds)
        checkpoints(url)
    finally:
        if server is not None:
            server.end()


def measured(rounds: int, **kinds: Callable[[], float]) -> Dict[str, float]:
    """The median of each kind, measured in turns."""
    found: Dict[str, List[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, measure in kinds.items():
            found[kind].append(measure())
    return {kind: statistics.median(times) for kind, times in found.items()}


def imports(rounds: int) -> None:
    """Seconds until a module is imported, in a new process."""

    def importing(what: str) -> Callable[[], float]:
        code = f"import time; began = time.perf_counter(); {what}; print(time.perf_counter() - began)"
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE / "src")}
        return lambda: float(subprocess.check_output([sys.executable, "-c", code], env=environment))

    found = measured(
        2 * rounds,
        httpx=importing("import httpx"),
        package=importing("import threadline"),
        client=importing("from threadline import Threadline"),
        both=importing("from threadline import AsyncThreadline, Threadline"),
    )
    print(f"import threadline                      {found['package'] * 1e3:8.0f} ms")
    print(f"  from threadline import Threadline    {found['client'] * 1e3:8.0f} ms, of which httpx {found['httpx'] * 1e3:.0f} ms")
    print(f"  both clients                         {found['both'] * 1e3:8.0f} ms")


def appends(url: str, typescript: Path, rounds: int) -> None:
    """Seconds until a run with `EVENTS` small events is durable."""

    def synchronous() -> float:
        with Threadline(url, user=USER) as client:
            thread = client.thread(client.threads.create().thread_id)
            began = time.perf_counter()
            with thread.run() as run, run.text() as text:
                for _ in range(EVENTS):
                    text.write("word ")
            return time.perf_counter() - began

    async def asynchronous() -> float:
        async with AsyncThreadline(url, user=USER) as client:
            thread = client.thread((await client.threads.create()).thread_id)
            began = time.perf_counter()
            async with thread.run() as run:
                async with run.text() as text:
                    for _ in range(EVENTS):
                        await text.write("word ")
            return time.perf_counter() - began

    kinds: Dict[str, Callable[[], float]] = {
        "AsyncThreadline": lambda: asyncio.run(asynchronous()),
        "Threadline": synchronous,
    }
    node = shutil.which("node")
    if node and (typescript / "dist/index.js").exists():
        command = [node, str(PACKAGE / "scripts/bench.mjs"), str(typescript), url, str(EVENTS)]
        kinds["TypeScript"] = lambda: float(subprocess.check_output(command))
    print(f"{EVENTS:,} events appended, and durable")
    found = measured(rounds, **kinds)
    for kind, seconds in found.items():
        compared = f", {seconds / found['TypeScript']:.1f} times TypeScript" if "TypeScript" in found else ""
        print(f"  {kind:36} {seconds:8.2f} s, {EVENTS / seconds:,.0f} events/s{compared}")


def checkpoints(url: str) -> None:
    """Milliseconds of `ThreadlineSaver.put`, and of a list of all checkpoints of a thread."""
    try:
        base: Any = import_module("langgraph.checkpoint.base")
        uuid6: Any = import_module("langgraph.checkpoint.base.id").uuid6
        ThreadlineSaver: Any = import_module("threadline.langgraph").ThreadlineSaver
    except ImportError:
        print("no LangGraph in this Python: its checkpointer is not measured")
        return
    puts: List[float] = []
    with Threadline(url, user=USER) as client:
        saver = ThreadlineSaver(client)
        thread_id = client.threads.create().thread_id
        at: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        version: Optional[str] = None
        for step in range(CHECKPOINTS):
            version = saver.get_next_version(version, None)
            checkpoint: Any = {**base.empty_checkpoint(), "id": str(uuid6(clock_seq=step))}
            checkpoint.update(channel_values={"messages": ["x" * 500]}, channel_versions={"messages": version})
            began = time.perf_counter()
            at = saver.put(at, checkpoint, {"step": step, "source": "loop"}, {"messages": version})
            puts.append(time.perf_counter() - began)

        def listing() -> float:
            began = time.perf_counter()
            count = len(list(saver.list({"configurable": {"thread_id": thread_id}})))
            assert count == CHECKPOINTS
            return time.perf_counter() - began

        lists = [listing() for _ in range(5)]
    puts.sort()
    print("ThreadlineSaver")
    middle, late = puts[len(puts) // 2] * 1e3, puts[len(puts) * 99 // 100] * 1e3
    print(f"  put                                  {middle:8.1f} ms (p50), {late:.1f} ms (p99)")
    print(f"  list of {CHECKPOINTS:,}                        {statistics.median(lists) * 1e3:8.0f} ms")


if __name__ == "__main__":
    main()
