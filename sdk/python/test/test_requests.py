"""Requests: errors, retries, ids, tokens, and the end of a client."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import time
from typing import Any, Dict, List

import pytest
from harness.proxy import Proxy
from harness.server import Server
from harness.until import until
from threadline import (
    AsyncThreadline,
    Closed,
    ConfigError,
    ConnectionFailed,
    ProblemError,
    ProtocolError,
    Retries,
    Threadline,
    ThreadlineError,
    Timeout,
)
from threadline.problems import ThreadExists, ThreadNotFound, Unauthorized

ONCE = Retries(reads=0, writes=0, producers=0)


def answer(status: str, body: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


async def test_a_refusal_has_the_class_of_its_type_and_names_its_request(server: Server) -> None:
    async with AsyncThreadline(server.url) as client:
        with pytest.raises(ThreadNotFound) as caught:
            await client.thread("is not there").get()
    error = caught.value
    assert (error.slug, error.status, error.retryable) == ("thread-not-found", 404, False)
    assert error.help and error.detail and error.problem["title"] and len(error.request_id or "") == 32
    assert isinstance(error, ProblemError) and error.help in str(error)


async def test_the_tries_of_a_call_have_an_id_in_common(server: Server, proxy: Proxy) -> None:
    async with AsyncThreadline(proxy.url) as client:
        proxy.swallow_answers = 2
        created = await client.threads.create(name="once")
        ids = [head.lower().split(b"x-request-id: ")[1].split(b"\r\n")[0].decode() for head in proxy.heads]
        assert ids[1:] == [f"{ids[0]}.2", f"{ids[0]}.3"]
        keys = {head.lower().split(b"idempotency-key: ")[1].split(b"\r\n")[0].decode() for head in proxy.heads}
        assert keys == {ids[0]}
        assert (await client.thread(created.thread_id).get()).name == "once"
        assert b"threadline-client: python/" in proxy.heads[0].lower()


@pytest.mark.parametrize("synchronous", [True, False])
def test_retries_end(server: Server, proxy: Proxy, synchronous: bool) -> None:
    proxy.refuse = True
    retries = Retries(reads=0.6, writes=0, producers=0)
    began = time.monotonic()
    if synchronous:
        with Threadline(proxy.url, retries=retries) as client, pytest.raises(ConnectionFailed) as caught:
            client.thread("t").get()
    else:

        async def read() -> None:
            async with AsyncThreadline(proxy.url, retries=retries) as client:
                await client.thread("t").get()

        with pytest.raises(ConnectionFailed) as caught:
            asyncio.run(read())
    assert 0.6 <= time.monotonic() - began < 5
    assert caught.value.retryable and "." in (caught.value.request_id or "")


async def test_a_read_survives_a_restart_of_the_server(own_server: Server) -> None:
    async with AsyncThreadline(own_server.url) as client:
        thread = await client.threads.create()
        own_server.kill()
        reading = asyncio.ensure_future(client.thread(thread.thread_id).get())
        await asyncio.to_thread(own_server.restart)
        assert (await reading).thread_id == thread.thread_id


async def test_a_response_that_does_not_come_is_a_timeout(server: Server, proxy: Proxy) -> None:
    async with AsyncThreadline(proxy.url, timeout=0.3, retries=ONCE) as client:
        proxy.instead = b""
        with pytest.raises(ConnectionFailed):
            await client.thread("t").get()
    # Connections are accepted, and never answered.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with AsyncThreadline(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3, retries=ONCE) as client:
            with pytest.raises(Timeout):
                await client.thread("t").get()


async def test_a_page_of_somebody_else_is_final_only_before_the_server_has_answered(server: Server, proxy: Proxy) -> None:
    proxy.instead = answer("200 OK", "<h1>Welcome to the hotel</h1>")
    async with AsyncThreadline(proxy.url, retries=ONCE) as client:
        with pytest.raises(ProtocolError):
            await client.threads.list()
        proxy.instead = None
        await client.threads.list()
        proxy.instead = answer("200 OK", "<h1>Welcome to the hotel</h1>")
        with pytest.raises(ConnectionFailed):
            await client.threads.list()
        proxy.instead = answer("502 Bad Gateway", "no server")
        with pytest.raises(ProblemError) as caught:
            await client.threads.list()
        assert caught.value.slug == "http-502" and caught.value.retryable and caught.value.detail == "no server"


async def test_a_redirect_is_not_followed(proxy: Proxy) -> None:
    proxy.instead = answer("307 Temporary Redirect", "", "location: https://elsewhere.example/")
    async with AsyncThreadline(proxy.url, api_key="secret") as client:
        with pytest.raises(ConfigError, match=r"https://elsewhere\.example/"):
            await client.threads.list()


def token(name: str, lifetime: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"iat": 0, "exp": lifetime, "sub": name}).encode()).decode()
    return f"e30.{claims.rstrip('=')}.{name}"


async def test_a_token_is_used_until_it_is_about_to_expire_and_asked_for_once(proxy: Proxy) -> None:
    proxy.instead = answer("200 OK", '{"threads":[],"nextCursor":null,"feedCursor":0,"feedEpoch":""}')
    given: List[str] = []

    async def source() -> str:
        given.append(token(f"t{len(given)}", 0.5))
        await asyncio.sleep(0.01)
        return given[-1]

    def used() -> List[str]:
        return [head.split(b"uthorization: Bearer ")[1].split(b"\r\n")[0].decode() for head in proxy.heads]

    async with AsyncThreadline(proxy.url, token=source) as client:
        await asyncio.gather(*(client.threads.list() for _ in range(5)))
        assert used() == given * 5 and len(given) == 1
        await asyncio.sleep(0.41)
        await client.threads.list()
        assert len(given) == 2 and used()[-1] == given[-1]


async def test_a_refused_token_is_renewed_once(proxy: Proxy) -> None:
    problem = '{"type":"/problems/unauthorized","title":"Authentication required","status":401}'
    proxy.instead = answer("401 Unauthorized", problem, "content-type: application/problem+json")
    given: List[str] = []

    def source() -> str:
        given.append("x")
        return f"token-{len(given)}"

    async with AsyncThreadline(proxy.url, token=source) as client:
        with pytest.raises(Unauthorized):
            await client.threads.list()
    assert len(given) == 2


async def test_a_failing_token_callback_is_retried(server: Server) -> None:
    calls: List[int] = []

    def source() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("the backend is away")
        return "token"

    async with AsyncThreadline(server.url, token=source) as client:
        await client.threads.list()
    assert len(calls) == 3


def test_a_synchronous_client_takes_no_asynchronous_callback(server: Server) -> None:
    async def source() -> str:
        return "token"

    with Threadline(server.url, token=source) as client, pytest.raises(ConfigError, match="AsyncThreadline"):  # type: ignore[arg-type]
        client.threads.list()


@pytest.mark.parametrize("url", ["localhost:7420", "http://user:secret@host", "http://host/?a=b", "ftp://host", "http://", ""])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError, match="server address"):
        Threadline(url)


def test_options_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THREADLINE_URL", raising=False)
    with pytest.raises(ConfigError, match="THREADLINE_URL"):
        Threadline()
    options: Dict[str, Any]
    for options in (
        {"timeout": 0},
        {"user": "é"},
        {"transports": ["websocket"]},
        {"transports": []},
        {"api_key": "a", "token": "b"},
        {"headers": {"x": "a\nb"}},
        {"retries": Retries(reads=-1)},
    ):
        with pytest.raises(ConfigError):
            Threadline("http://host", **options)


def test_the_environment_names_the_server_and_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed = Server(api_key="a-long-key-of-the-operator")
    try:
        monkeypatch.setenv("THREADLINE_URL", keyed.url)
        monkeypatch.setenv("THREADLINE_API_KEY", "a-long-key-of-the-operator")
        with Threadline(user="ann") as client:
            assert client.threads.create("anns").user_id == "ann"
        with Threadline(user="eve") as client, pytest.raises(ThreadExists):
            client.threads.get_or_create("anns")
        with Threadline(api_key="another", retries=ONCE) as client, pytest.raises(Unauthorized):
            client.threads.list()
    finally:
        keyed.end()


def test_an_asynchronous_client_is_refused_in_a_second_event_loop(server: Server) -> None:
    client = AsyncThreadline(server.url, user="ann")
    first = asyncio.new_event_loop()
    agents = first.run_until_complete(client.agents.list())
    with pytest.raises(ConfigError, match="two event loops"):
        asyncio.run(client.agents.list())
    assert first.run_until_complete(client.agents.list()) == agents
    first.run_until_complete(client.aclose())
    first.close()
    with Threadline(server.url, user="ann") as synchronous:
        assert [asyncio.run(asyncio.to_thread(synchronous.agents.list)) for _ in range(2)] == [agents, agents]


async def test_a_closed_client_ends_what_waits(server: Server, proxy: Proxy) -> None:
    client = AsyncThreadline(proxy.url)
    thread = client.thread((await client.threads.create()).thread_id)
    items = thread.subscribe()
    await items.__anext__()
    await items.__anext__()
    reading = asyncio.ensure_future(items.__anext__())
    proxy.refuse = True
    proxy.cut()
    calling = asyncio.ensure_future(thread.get())
    await asyncio.sleep(0.1)
    await client.aclose()
    for waiting in (reading, calling):
        with pytest.raises((Closed, StopAsyncIteration)):
            while True:
                await asyncio.wait_for(waiting, 60)
                waiting = asyncio.ensure_future(items.__anext__())
    with pytest.raises(Closed):
        await thread.get()


@pytest.mark.parametrize("bad", ["", ".", "..", "\ud800"])
def test_an_id_that_no_path_can_have(server: Server, bad: str) -> None:
    with Threadline(server.url) as client, pytest.raises(ConfigError, match="as an id"):
        client.thread(bad).get()


def test_any_other_id(server: Server) -> None:
    with Threadline(server.url) as client:
        for name in ("a/b?c#d%2F", "漢 字", "\u2028", "...", "a b+c"):
            assert client.threads.create(name).thread_id == name
            assert client.thread(name).get().thread_id == name


def test_the_log_has_no_queries_and_no_texts(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="threadline")
    with Threadline(server.url) as client:
        client.threads.list(search="secret words")
        with pytest.raises(ThreadlineError):
            client.thread("missing").get()
    said = [record for record in caplog.records if record.name == "threadline"]
    assert [record.levelname for record in said] == ["DEBUG", "WARNING"]
    assert "GET /v1/threads: 200" in said[0].getMessage() and "thread-not-found" in said[1].getMessage()
    assert all("secret" not in record.getMessage() for record in said)


async def test_the_client_may_be_given(server: Server) -> None:
    import httpx

    async with httpx.AsyncClient() as http:
        async with AsyncThreadline(server.url, http=http) as client:
            await client.threads.list()
        assert not http.is_closed
    await until(lambda: http.is_closed)
