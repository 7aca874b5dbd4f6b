"""The examples of docs/python.md, run as they are written."""

from __future__ import annotations

import ast
import asyncio
import logging
import re
from typing import Any, AsyncIterator, Dict, List

import pytest
import threadline
import threadline.agui
from harness.documents import ROOT, examples_of
from harness.server import Server
from threadline import AsyncThreadline

SNIPPETS = examples_of("python.md")


async def execute(snippet: str, names: Dict[str, Any]) -> Dict[str, Any]:
    """Runs an example that may await; returns its names."""
    code = compile(snippet, "docs/python.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)
    if asyncio.iscoroutine(result):
        await result
    return names


class Enough(Exception):
    """Ends an example that would go on for ever."""


def names_of(**more: Any) -> Dict[str, Any]:
    return {**{name: getattr(threadline, name) for name in threadline.__all__}, "logging": logging, **more}


def test_all_snippets_are_run() -> None:
    assert len(SNIPPETS) == 10


@pytest.mark.parametrize("page", ["langgraph.md", "openai-agents.md", "pydantic-ai.md", "adk.md"])
def test_the_row_of_an_adapter_in_the_readme_is_a_line_of_its_page(page: str) -> None:
    [code] = re.findall(rf"^\| [^|]+ \| `([^`]+)`[^|]*\| \[{page}\]", (ROOT / "README.md").read_text("utf-8"), re.M)
    assert any(code in example.splitlines() for example in examples_of(page))


def test_the_first_five_lines(server: Server) -> None:
    start = SNIPPETS[0].replace("http://localhost:7420", server.url)
    assert len([line for line in start.split("\n") if line]) == 5
    seen: List[Any] = []

    def show(item: Any) -> None:
        seen.append(item)
        if isinstance(item, threadline.CaughtUp):
            raise Enough

    names: Dict[str, Any] = {"print": show}
    try:
        exec(compile(start, "docs/python.md", "exec"), names)
    except Enough:
        names["client"].close()
    assert [type(item).__name__ for item in seen] == ["Hello", "CaughtUp"]


def test_the_fixtures(server: Server) -> None:
    names = names_of()
    exec(compile(SNIPPETS[-1], "docs/python.md", "exec"), names)
    with threadline.Threadline(server.url, user="fixtures") as client:
        names["test_an_answer_is_stored"](client)


def test_the_readme(server: Server) -> None:
    """The README of the package stands alone: PyPI shows it without the repository."""
    text = (ROOT / "sdk/python/README.md").read_text()
    assert "](" not in text, "a relative link is dead there"
    (snippet,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    told: List[Any] = []

    def show(item: Any) -> None:
        told.append(item)
        if isinstance(item, threadline.CaughtUp):
            raise Enough

    names: Dict[str, Any] = {"print": show}
    with pytest.raises(Enough):
        exec(compile(snippet.replace("http://localhost:7420", server.url), "README.md", "exec"), names)
    names["client"].close()
    assert sum(len(batch.events) for item in told if isinstance(item, threadline.Events) for batch in item.batches) == 5


async def test_the_other_snippets(server: Server) -> None:
    _, options, threads, lists, reading, producing, existing, data, agent, _ = SNIPPETS
    names = await execute(options, names_of(url=server.url, api_key="a-key", user=threadline.user))
    await names["client"].aclose()
    async with AsyncThreadline(server.url) as client:
        names = await execute(threads, names_of(client=client, print=lambda *_: None))
        assert names["started"].run.agent_id == "demo" and names["messages"] == []
        changed = asyncio.Event()
        shown: List[Any] = []
        save = names_of(client=client, show=shown.extend, update=lambda *_: changed.set(), save=shown.append)
        following = asyncio.ensure_future(execute(lists, save))
        while not shown:
            await asyncio.sleep(0.01)
        thread = client.thread((await client.threads.create()).thread_id)
        await asyncio.wait_for(changed.wait(), 30)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert shown[-1].epoch
        said: List[Any] = []

        async def model(history: Any) -> AsyncIterator[str]:
            assert history[-1]["content"] == "Where is my parcel?"
            yield "Let me "
            yield "see."

        async def lookup(number: int) -> Dict[str, Any]:
            return {"parcel": number}

        await execute(producing, names_of(thread=thread, model=model, lookup=lookup, print=said.append))
        assert said == ["finished"] and (await thread.state()).state == {"parcel": "found"}
        rendered: List[int] = []
        names = await execute(
            reading, names_of(thread=thread, cursor=None, render=lambda seq, events: rendered.extend([seq] * len(events)))
        )
        assert len(rendered) == 11 and names["cursor"].after == 11 and names["cursor"].epoch
        names = await execute(existing, names_of(thread=thread, chapters=["One.", "Two."]))
        assert names["record"].status == "finished"
        assert [one.get("content") for one in (await thread.messages()).messages][-2:] == ["One.", "Two."]
        names = await execute(data, names_of(thread=thread, client=client))
        assert names["everything"] == [{"role": "user", "content": "Hi"}] and names["found"] == [names["old"]]
    names = await execute(agent, names_of())
    assert [route.path for route in names["app"].routes] == ["/agent"]
    given = threadline.agui.RunAgentInput("t", "r", [{"role": "user", "content": "Hi"}])
    frames = [frame async for frame in threadline.agui.frames(names["trips"], given)]
    assert b"You said: Hi" in b"".join(frames)
