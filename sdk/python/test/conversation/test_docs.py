"""The example of docs/conversation.md."""

import re
from pathlib import Path

import pytest

_PAGE = Path(__file__).resolve().parents[4] / "docs/conversation.md"


def test_the_example_runs_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", _PAGE.read_text(), re.M | re.S)
    exec(compile(example, str(_PAGE), "exec"), {})
    said = capsys.readouterr().out
    assert said == "[{'id': 'm', 'role': 'assistant', 'content': 'Hello'}] {'parcel': 'found'}\n"
