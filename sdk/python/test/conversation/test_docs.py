"""The example of docs/conversation.md."""

import pytest
from harness.documents import examples_of


def test_the_example_runs_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples_of("conversation.md")
    exec(compile(example, "docs/conversation.md", "exec"), {})
    said = capsys.readouterr().out
    assert said == "[{'id': 'm', 'role': 'assistant', 'content': 'Hello'}] {'parcel': 'found'}\n"
