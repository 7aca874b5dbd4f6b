"""What is published, and what an import loads."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import List, Set

import pytest
import threadline

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src/threadline"


NAME = f"threadline-{threadline.__version__}"
MODULES = {f"threadline/{path.relative_to(SOURCES).as_posix()}" for path in SOURCES.rglob("*.py")} | {"threadline/py.typed"}


def build(folder: Path, kind: str, out: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    [built] = out.iterdir()
    return built


def names_in(wheel: Path) -> Set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is after work with it: with the caches of tools, and a built wheel."""
    folder = tmp_path_factory.mktemp("used") / "python"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "sets"))
    for left in ("src/threadline/__pycache__/_json.cpython-399.pyc", "src/threadline/.mypy_cache/a.json", ".ruff_cache/b", "dist/old.whl"):
        path = folder / left
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("left")
    return folder


def test_the_wheel_has_the_package_alone(used: Path, tmp_path: Path) -> None:
    wheel = build(used, "wheel", tmp_path)
    assert wheel.name == f"{NAME}-py3-none-any.whl"
    about = {f"{NAME}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    assert names_in(wheel) == MODULES | about
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{NAME}.dist-info/METADATA").decode()
    assert "Requires-Dist: httpx>=0.27\n" in metadata and "Requires-Python: >=3.10" in metadata
    # A relative link of the page leads nowhere on an index.
    assert "Description-Content-Type: text/markdown\n" in metadata
    assert not re.findall(r"\]\((?!https?://)|<img|src=", metadata.partition("\n\n")[2])


def test_the_source_distribution_installs_offline(used: Path, tmp_path: Path) -> None:
    source = build(used, "sdist", tmp_path / "out")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == {f"src/{name}" for name in MODULES} | {"LICENSE", "PKG-INFO", "README.md", "hatch_build.py", "pyproject.toml"}
    place = tmp_path / "place"
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", str(place), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    assert {path.relative_to(place).as_posix() for path in place.rglob("*.py")} == MODULES - {"threadline/py.typed"}
    code = "import threadline, threadline.kv; print(threadline.__file__, threadline.__version__)"
    environment = {**os.environ, "PYTHONPATH": str(place)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(place / "threadline/__init__.py"), threadline.__version__]


@pytest.mark.parametrize(
    ("statement", "left_out"),
    [
        ("import threadline", ["httpx", "threadline._config"]),
        ("from threadline import Threadline", ["threadline._async.client", "asyncio"]),
        ("from threadline import AsyncThreadline", ["threadline._sync.client"]),
        ("from threadline import *", ["starlette", "pydantic", "threadline.agui", "threadline.conversation"]),
    ],
)
def test_an_import_loads_what_it_needs(statement: str, left_out: List[str]) -> None:
    code = f"import sys; {statement}; print([name for name in {left_out} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_names_that_checkers_see_are_those_that_are_imported() -> None:
    tree = ast.parse(Path(threadline.__file__).read_text())
    [seen] = [one for one in tree.body if isinstance(one, ast.If) and isinstance(one.test, ast.Name)]
    names = {alias.name: one.module for one in seen.body if isinstance(one, ast.ImportFrom) for alias in one.names}
    assert names == threadline._MODULES
    assert sorted([*names, "__version__"]) == sorted(threadline.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Treadline'"):
        getattr(threadline, "Treadline")
    assert set(threadline.__all__) <= set(dir(threadline))


def test_all_names_of_the_package_exist() -> None:
    assert sorted(threadline.__all__) == list(threadline.__all__)
    for name in threadline.__all__:
        assert getattr(threadline, name) is not None
