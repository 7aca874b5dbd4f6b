"""Generated files are what their sources say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from threadline import ProblemError, problems
from threadline._errors import BY_SLUG, problem_error
from threadline._records import RunRecord

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("script", ["unasync.py", "generate.py"])
def test_a_generated_file_is_up_to_date(script: str) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_change_of_a_source_is_found(tmp_path: Path) -> None:
    """The check itself can fail."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/unasync.py").write_text((ROOT / "scripts/unasync.py").read_text())
    package = tmp_path / "src/threadline"
    (package / "_async").mkdir(parents=True)
    (package / "_async/one.py").write_text("async def f() -> None:\n    await g()\n")
    run = [sys.executable, str(tmp_path / "scripts/unasync.py")]
    assert subprocess.run([*run, "--check"], capture_output=True, check=False).returncode == 1
    assert subprocess.run(run, check=False).returncode == 0
    assert (package / "_sync/one.py").read_text() == "def f() -> None:\n    g()\n"
    assert subprocess.run([*run, "--check"], capture_output=True, check=False).returncode == 0


def test_nothing_asynchronous_is_left_in_the_synchronous_client() -> None:
    for path in (ROOT / "src/threadline/_sync").glob("*.py"):
        text = path.read_text()
        for word in ("async ", "await ", "Async", "asyncio"):
            assert word not in text, f"{word!r} in {path.name}"


def test_each_problem_type_has_a_class() -> None:
    assert len(BY_SLUG) > 60
    for slug, kind in BY_SLUG.items():
        assert getattr(problems, kind.__name__) is kind
        error = problem_error({"type": f"/problems/{slug}", "title": "T", "status": 409, "help": "H"}, 409)
        assert type(error) is kind and error.slug == slug and error.help == "H"


def test_an_unknown_problem_type_is_a_plain_problem() -> None:
    error = problem_error({"type": "/problems/of-a-later-version", "retryable": True, "retryAfterMs": 1500, "more": 7}, 418)
    assert type(error) is ProblemError and error.slug == "of-a-later-version"
    assert (error.retryable, error.retry_after, error.problem["more"]) == (True, 1.5, 7)


def test_members_that_a_record_does_not_know_are_kept() -> None:
    record = RunRecord.of({"runId": "r", "ofALaterVersion": [1]})
    assert (record.run_id, record.extra) == ("r", {"ofALaterVersion": [1]})
