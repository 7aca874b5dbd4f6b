"""Test suites of frameworks, which run with adapters of Threadline in place of the frameworks' own classes.

The suites are in the source archives of the frameworks. They are downloaded with the hashes of `archives.txt`, and are no part of
this repository.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple

from harness.environments import python_in
from harness.server import Server

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
PLUGINS = HERE.parent / "adapters/programs/suites"
TARGET = ROOT / "target/suites"

ONE_LOOP = "an AsyncThreadline has no synchronous calls, since it belongs to one event loop"


@dataclass(frozen=True)
class Suite:
    """Tests of one source archive."""

    archive: str
    packages: str
    """Folder of `sets` with what the tests need."""
    tests: Tuple[str, ...]
    plugin: Optional[str] = None
    conftest: Optional[str] = None
    """A file that takes the place of the archive's `tests/conftest.py`."""
    failing: Mapping[str, str] = field(default_factory=lambda: {})
    """Tests that fail, each with the reason."""
    unsteady: Mapping[str, str] = field(default_factory=lambda: {})
    """Tests that may fail, each with the reason."""


SUITES: Dict[str, Suite] = {
    "langgraph": Suite(
        archive="langgraph-1.2.24",
        packages="langgraph",
        conftest="langgraph_conftest.py",
        tests=(
            *(f"tests/test_{name}.py" for name in ("checkpoint_migration", "interrupt_state", "interruption", "large_cases")),
            *(f"tests/test_delta_channel_{name}.py" for name in ("exit_mode", "fork", "parallel_order", "subgraph")),
            *(f"tests/test_delta_channel_{name}.py" for name in ("to_plain", "update_state")),
            *(f"tests/test_{name}.py" for name in ("large_cases_async", "pregel", "pregel_async", "pydantic", "strict_resume")),
            *(f"tests/test_{name}.py" for name in ("subgraph_persistence", "subgraph_persistence_async")),
            *(f"tests/test_{name}.py" for name in ("time_travel", "time_travel_async")),
        ),
        failing={
            "test_sync_get_state_on_async_saver_matches_live_order": ONE_LOOP,
            "test_weather_subgraph": ONE_LOOP,
            "test_store_injected_async": ONE_LOOP,
            "test_double_interrupt_subgraph": ONE_LOOP,
        },
        unsteady={
            "test_imp_nested": "names the order in which two tasks end that run at the same time; on a busy machine, it differs",
            "test_stream_subgraphs_during_execution": "compares times of chunks; on a busy machine, they are late",
        },
    ),
    "langgraph-checkpoint": Suite(
        archive="langgraph_checkpoint-4.3.2",
        packages="langgraph",
        plugin="langgraph_stores_plugin",
        tests=("tests/test_store.py",),
    ),
    "langgraph-checkpoint-sqlite": Suite(
        archive="langgraph_checkpoint_sqlite-3.1.2",
        packages="langgraph",
        plugin="langgraph_stores_plugin",
        tests=("tests/test_store.py",),
        failing={
            "test_sql_injection_vulnerability": "SQLite refuses names of members with quotes; here they are names like any other",
            "test_numeric_filter_safety": "a filter is JSON, which has no infinity",
            "test_filter_keys_with_hyphens_and_digits": "a filter compares top-level members, and no paths",
            "test_namespace_labels_with_trailing_newline": "a label has no control characters",
        },
    ),
    "openai-agents": Suite(
        archive="openai_agents-0.24.0",
        packages="openai-agents",
        plugin="openai_agents_plugin",
        tests=(
            *(f"tests/memory/test_{name}.py" for name in ("session", "session_limit")),
            "tests/extensions/memory/test_async_sqlite_session.py",
            "tests/test_hitl_session_scenario.py",
            "tests/deferred_session_writes",
        ),
    ),
}


@dataclass(frozen=True)
class Outcome:
    passed: int
    failed: Set[str]
    text: str


def run(suite: Suite) -> Outcome:
    """Runs a suite on a new server."""
    folder = unpacked(suite.archive)
    if suite.conftest:
        shutil.copy(PLUGINS / suite.conftest, folder / "tests/conftest.py")
    report = TARGET / f"{suite.archive}.xml"
    report.unlink(missing_ok=True)
    plugin = ["-p", suite.plugin] if suite.plugin else []
    command = [
        _python(suite.packages),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *plugin,
        "--tb=short",
        f"--junitxml={report}",
        *suite.tests,
    ]
    server = Server()
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join([str(ROOT / "sdk/python/src"), str(PLUGINS)]),
                "THREADLINE_URL": server.url,
            },
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        server.end()
    if not report.exists():
        return Outcome(0, {"the suite"}, done.stdout + done.stderr)
    return outcome(report, done.stdout)


def program(name: str, packages: str, *arguments: str) -> Any:
    """The JSON that a program prints, which runs with the packages of a suite on a new server."""
    server = Server()
    try:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "sdk/python/src"), "THREADLINE_URL": server.url}
        command = [_python(packages), str(PLUGINS / name), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    finally:
        server.end()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _python(packages: str) -> str:
    return python_in(HERE / "sets" / packages / "requirements.txt", ROOT / "target" / f"pipe-{packages}")


def outcome(report: Path, text: str) -> Outcome:
    cases = list(xml.parse(report).getroot().iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    names = {re.sub(r"\[.*", "", case.get("name", "")) for case in failed}
    return Outcome(len(cases) - len(failed) - len(skipped), names, text)


@lru_cache
def unpacked(archive: str) -> Path:
    """The folder of a source archive, whose hash is checked."""
    archives = TARGET / "archives"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:"]
    # The archives' own backend, hatchling, is one of the packages of this Python.
    options: List[str] = ["--require-hashes", "--no-build-isolation", "-r", str(HERE / "archives.txt"), "-d", str(archives)]
    done = subprocess.run([*pip, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(TARGET / archive, ignore_errors=True)
    with tarfile.open(archives / f"{archive}.tar.gz") as packed:
        packed.extractall(TARGET, filter="data")
    return TARGET / archive
