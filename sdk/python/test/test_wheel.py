"""The wheels: what they install runs offline, as a server, a client and fixtures of pytest, and is gone after an uninstall."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Dict, List, Set

import pytest
from elf import NotElf, read_elf
from harness.server import BINARY
from threadline._process import ServerProcess

SCRIPT = Path(__file__).resolve().parents[1] / "scripts/wheel.py"

APPLICATION = """
def test_a_run(threadline, threadline_server, threadline_user, threadline_restart):
    thread = threadline.thread(threadline.threads.create().thread_id)
    with thread.run(messages=[{"role": "user", "content": "Hi"}]) as run:
        with run.text() as text:
            text.write("Hello")
    threadline_restart()
    assert [one["content"] for one in thread.messages().messages] == ["Hi", "Hello"]
    assert threadline.threads.list().threads[0].user_id == threadline_user

def test_another_user(threadline):
    assert threadline.threads.list().threads == []
"""


def built(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server without its symbols, which would make the wheel five times as large."""
    path = tmp_path_factory.mktemp("program") / "server"
    subprocess.run(["strip", "--strip-debug", "-o", str(path), BINARY], check=True)
    return path


@pytest.fixture(scope="module")
def wheels(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheels")
    run = built(program, "--out", out)
    assert run.returncode == 0, run.stdout
    return out


def files(root: Path) -> Set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if "__pycache__" not in path.parts}


def test_a_wheel_installs_the_server_and_leaves_nothing(wheels: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    python, scripts = place / "bin/python", place / "bin"
    (packages,) = place.glob("lib/python*/site-packages")
    # The dependencies are those of this environment.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    before = files(place)
    pip: List[str] = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, "install", "-q", "--no-index", "--find-links", str(wheels), "threadline"], check=True)
    environment: Dict[str, str] = {name: value for name, value in os.environ.items() if not name.startswith(("THREADLINE", "PYTHON"))}
    # Pytest writes files beside a plugin that pip does not know.
    environment.update(PATH=f"{scripts}:{environment['PATH']}", PYTHONDONTWRITEBYTECODE="1")
    assert os.access(scripts / "threadline", os.X_OK)
    server = ServerProcess(str(scripts / "threadline"))
    try:
        code = "import sys, threadline; print(threadline.Threadline(sys.argv[1]).threads.create('t').thread_id, threadline.__file__)"
        said = subprocess.run([str(python), "-c", code, server.url], env=environment, stdout=subprocess.PIPE, text=True, check=True)
        thread_id, source = said.stdout.split()
        assert thread_id == "t" and source.startswith(str(place))
    finally:
        server.end()
    (tmp_path / "test_application.py").write_text(APPLICATION)
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_application.py"]
    tested = subprocess.run(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert tested.returncode == 0 and "2 passed" in tested.stdout, tested.stdout
    subprocess.run([*pip, "uninstall", "-q", "-y", "threadline"], check=True)
    assert files(place) == before


def test_wheels_say_what_they_need(wheels: Path, program: Path, tmp_path: Path) -> None:
    pure, platform = sorted(path.name for path in wheels.iterdir())
    assert re.fullmatch(r"threadline-[\d.]+-py3-none-any\.whl", pure)
    tag = re.fullmatch(r"threadline-[\d.]+-py3-none-(manylinux_2_(\d+)_\w+)\.whl", platform)
    assert tag is not None
    versions = {version for versions in read_elf(program).versions.values() for version in versions}
    assert f"GLIBC_2.{tag[2]}" in versions and f"GLIBC_2.{int(tag[2]) + 1}" not in versions
    names = zipfile.ZipFile(wheels / platform).namelist()
    assert any(name.endswith(".data/scripts/threadline") for name in names) and any("/sboms/" in name for name in names)
    assert not any("scripts/" in name for name in zipfile.ZipFile(wheels / pure).namelist())
    older = re.sub(r"2_\d+", "2_17", tag[1])
    refused = built(program, "--out", tmp_path, "--tag", older)
    assert refused.returncode == 1 and f"has to support {older}" in refused.stdout
    foreign = built(shutil.which("git") or "git", "--out", tmp_path)
    assert foreign.returncode == 1 and "link it statically" in foreign.stdout
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\n")
    refused = built(other, "--out", tmp_path)
    assert refused.returncode == 1 and "not a 64-bit little-endian ELF file" in refused.stdout
    with pytest.raises(NotElf):
        read_elf(other)
    assert list(tmp_path.glob("*.whl")) == []
