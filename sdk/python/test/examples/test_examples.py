"""The Python examples of frameworks, as their READMEs start them: with the packages of the newest sets, and scripted models."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List

import httpx
import pytest
from harness.environments import python_of
from harness.server import Server
from threadline import StartedRun, Threadline

ROOT = Path(__file__).resolve().parents[4]
SETS = {"fastapi-pydantic-ai": "pydantic-ai-newest", "openai-agents": "openai-newest", "adk": "adk-newest"}
# Seconds after which a program that hangs has failed.
LIMIT = 60


def environment(server: Server, **more: str) -> Dict[str, str]:
    key = {"THREADLINE_API_KEY": server.api_key} if server.api_key else {}
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "sdk/python/src"), "THREADLINE_URL": server.url, **key, **more}


def said(server: Server, example: str, *arguments: str) -> List[str]:
    """The lines that a program of an example prints."""
    command = [python_of(SETS[example]), "chat.py", *arguments]
    done = subprocess.run(
        command, cwd=ROOT / "examples" / example, env=environment(server), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@contextmanager
def application(server: Server) -> Iterator[str]:
    """The address of the FastAPI application, on a free port."""
    command = [python_of(SETS["fastapi-pydantic-ai"]), "-W", "error", "app.py"]
    folder = ROOT / "examples/fastapi-pydantic-ai"
    with subprocess.Popen(command, cwd=folder, env=environment(server, PORT="0"), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines: List[str] = []
            for line in process.stderr:
                lines.append(line)
                found = re.search(r"running on (http://\S+)", line)
                if found:
                    break
            else:
                pytest.fail("".join(lines))
            yield found[1]
        finally:
            process.kill()


def texts(messages: List[Any]) -> List[str]:
    return [one["content"].strip() for one in messages if one["role"] in ("user", "assistant") and "content" in one]


def test_fastapi_and_pydantic_ai(server: Server) -> None:
    """Both ways to answer, one after the other: the second one knows the conversation of the first one."""
    with application(server) as url, Threadline(server.url) as client:
        thread = client.thread("parcels-of-ann")
        answer = httpx.post(f"{url}/chats/parcels-of-ann", json={"text": "Where are parcels 7 and 8?"}, timeout=LIMIT)
        [run] = thread.runs().runs
        assert answer.json() == {"runId": run.run_id, "status": "finished"}
        server.request("PUT", "/v1/agents/parcels", {"url": f"{url}/agent"})
        started = thread.start("parcels", messages=[{"role": "user", "content": "And parcel 9?"}])
        assert isinstance(started, StartedRun)
        for _ in thread.subscribe(run_id=started.run.run_id):
            pass
        assert thread.run_record(started.run.run_id).status == "finished"
        place = "Parcel {} is in Ghent, and arrives tomorrow."
        assert texts(thread.messages().messages) == [
            "Where are parcels 7 and 8?",
            f"{place.format(7)} {place.format(8)} Questions in this chat: 1.",
            "And parcel 9?",
            f"{place.format(9)} Questions in this chat: 2.",
        ]
        server.request("DELETE", "/v1/agents/parcels")


def test_openai_agents(own_server: Server) -> None:
    """The session survives the end of its process, and a kill of the server."""
    first = "Parcel 7 is in Ghent, and arrives tomorrow. Questions in this chat: 1."
    second = "Parcel 8 is in Ghent, and arrives tomorrow. Questions in this chat: 2."
    lines = said(own_server, "openai-agents", "my-chat", "Where is parcel 7?")
    assert [line.strip() for line in lines] == ["0 items in the session", first]
    own_server.restart()
    lines = said(own_server, "openai-agents", "my-chat", "And parcel 8?")
    assert [line.strip() for line in lines] == ["4 items in the session", second]
    with Threadline(own_server.url) as client:
        assert texts(client.thread("my-chat").messages().messages) == ["Where is parcel 7?", first, "And parcel 8?", second]


def test_adk() -> None:
    """The session is continued by another process, and the state of the user by another session."""
    server = Server(api_key="a-key-of-the-tests-0123456789abcdef")
    try:
        found = "Parcel {} is in Ghent, and arrives tomorrow. Questions in this session: {}."
        begun = "{} events in the session, looked up: {}"
        assert said(server, "adk", "ann", "trip", "Where is parcel 7?") == [begun.format(0, []), found.format(7, 1)]
        assert said(server, "adk", "ann", "trip", "And parcel 8?") == [begun.format(4, [7]), found.format(8, 2)]
        with Threadline(server.url, api_key=server.api_key) as client:
            seen = texts(client.thread("parcels/ann/trip").messages().messages)
        assert seen == ["Where is parcel 7?", found.format(7, 1), "And parcel 8?", found.format(8, 2)]
    finally:
        server.end()


@pytest.mark.parametrize("example", SETS)
def test_an_example_has_the_versions_that_its_test_uses(example: str) -> None:
    pins = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?==([\w.]+)", re.M)
    [wanted] = ROOT.glob(f"sdk/python/test/*/sets/{SETS[example]}/requirements.txt")
    used = dict(pins.findall(wanted.read_text()))
    named = pins.findall((ROOT / "examples" / example / "requirements.in").read_text())
    assert named and {name: used.get(name) for name, _ in named} == dict(named)
