"""What is published, and what an import loads."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import List

import pytest
import threadline

ROOT = Path(__file__).resolve().parents[1]


def test_the_wheel_has_the_package_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name == f"threadline-{threadline.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert "threadline/py.typed" in names and "threadline/_sync/client.py" in names
    assert all(name.startswith(("threadline/", "threadline-")) for name in names)
    assert "Requires-Dist: httpx>=0.27\n" in metadata and "Requires-Python: >=3.10" in metadata


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
    names = {
        alias.name: one.module for one in seen.body if isinstance(one, ast.ImportFrom) for alias in one.names
    }
    assert names == threadline._MODULES
    assert sorted([*names, "__version__"]) == sorted(threadline.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Treadline'"):
        getattr(threadline, "Treadline")
    assert set(threadline.__all__) <= set(dir(threadline))


def test_all_names_of_the_package_exist() -> None:
    assert sorted(threadline.__all__) == list(threadline.__all__)
    for name in threadline.__all__:
        assert getattr(threadline, name) is not None
