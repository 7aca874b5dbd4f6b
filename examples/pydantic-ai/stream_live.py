"""Run the agent and stream its AG-UI events live into a Threadline thread.

The whole run is one request: POST /v1/threads/{threadId}/runs?runId=… with an NDJSON body
that grows while the agent works. Threadline starts the run, stores every event, keeps the
lease and finishes the run. If the connection breaks, another one continues after the last
stored event.
"""

import argparse
import asyncio
import json
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

import httpx

from agent import DEFAULT_PROMPT, run_as_ndjson

EXAMPLES = """\
examples:
  threadline dev                       start the server, in another terminal
  python stream_live.py                stream a run into the thread "demo"
  threadline tail demo                 watch it, in a third terminal
  python stream_live.py --delay 0.2    stream slowly, with time to stop the run
                                       (the command to do so is printed)

environment:
  THREADLINE_API_KEY   sent as "Authorization: Bearer …"; a local server needs none
  THREADLINE_USER      sent as "Threadline-User: …": the owner of the thread
"""


# How long a lost connection is retried, in seconds: the server keeps a silent run that long.
PATIENCE = 20


class Failure(Exception):
    """The run could not be streamed. The message has the cause and a suggested fix."""


async def stream(url: str, thread: str, prompt: str, delay: float) -> None:
    run_id = str(uuid.uuid4())
    thread_path = f"/v1/threads/{quote(thread, safe='')}"
    run_path = f"{thread_path}/runs/{run_id}"

    said: list[bytes] = []  # kept, to be sent again unchanged

    async with (
        httpx.AsyncClient(base_url=url, headers=identity(), timeout=30) as client,
        aclosing(run_as_ndjson(prompt, thread, run_id)) as agent,
    ):

        async def lines(first: int) -> AsyncIterator[bytes]:
            for line in said[first - 1 :]:
                yield line
            async for line in agent:
                said.append(line.encode())
                yield said[-1]
                await asyncio.sleep(delay)

        await create_thread(client, thread, thread_path)
        say(f"Streaming run {run_id} into thread {thread}. To stop it:\n  curl -X POST {url}{run_path}/stop")
        answer, first = None, 1
        while answer is None:
            try:
                response = await client.post(
                    f"{thread_path}/runs",
                    params={"runId": run_id, "producerSeq": first},
                    headers={"Content-Type": "application/x-ndjson"},
                    content=lines(first),
                )
                answer = accept(response)
            except httpx.TransportError as error:
                run = await find_out(client, thread_path, run_path, error)
                if run and run["status"] != "running":
                    answer = {"run": run}
                else:
                    first = run["producerSeq"] + 1 if run else 1
                    say(f"The connection broke ({error!r}). Continuing with event {first}.")
                    await asyncio.sleep(0.5)

    print(json.dumps(answer, indent=2))
    run = answer["run"]
    if run["status"] == "stopped":
        say("The run was stopped, as requested. The events sent until then are stored.")
    else:
        say(f"The run ended as {run['status']}: events {run['firstSeq']} to {run['lastSeq']} of the thread.")


async def create_thread(client: httpx.AsyncClient, thread: str, thread_path: str) -> None:
    response = await client.post("/v1/threads", json={"threadId": thread})
    if response.status_code == 409:  # the thread exists with other options, which is no error if it is ours
        response = await client.get(thread_path)
        if response.status_code == 404:
            raise Failure(f'The thread id "{thread}" is taken. Choose another with --thread.')
    accept(response)


async def find_out(client: httpx.AsyncClient, thread_path: str, run_path: str, error: httpx.TransportError) -> dict[str, Any] | None:
    """Look up the state of a run whose request broke; None if it has not started.

    A server that stops or refuses a run responds before the end of the body, and closes the
    connection. httpx is still writing then, and may lose that response, so the run is looked up.
    A server that was killed needs a moment to restart.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            response = await client.get(run_path)
            break
        except httpx.TransportError:
            if time.monotonic() > until:
                raise Failure(f"The connection broke during the run ({error!r}), and the server is unreachable.") from None
            await asyncio.sleep(0.5)
    if response.status_code != 404:
        return accept(response)
    holder = accept(await client.get(thread_path))["activeRun"]
    if holder:
        raise Failure(describe_holder(holder))
    return None


def accept(response: httpx.Response) -> dict[str, Any]:
    """The body of a successful response; raises a Failure with an explanation for any other."""
    if "json" not in response.headers.get("Content-Type", ""):
        raise Failure(f"This is not a response from Threadline: status {response.status_code}. Check --url.\n{response.text[:300]}")
    body = response.json()
    if response.is_success:
        return body
    lines = [f"{body.get('title', 'The request was refused')} ({response.status_code})", body.get("detail")]
    if "run" in body:
        lines.append(describe_holder(body["run"]))
    elif response.status_code == 401:
        lines.append("Set THREADLINE_API_KEY to a key of this server.")
    elif body.get("retryable"):
        lines.append("Try again in a moment.")
    raise Failure("\n".join(filter(None, lines)))


def describe_holder(run: dict[str, Any]) -> str:
    agent = f" of agent {run['agentId']}" if run.get("agentId") else ""
    return (
        f"Run {run['runId']}{agent} is active in the thread since {run['startedAt']}; "
        f"its lease ends at {run['leaseUntil']}.\n"
        "Wait for it, stop it, or choose another thread with --thread."
    )


def identity() -> dict[str, str]:
    headers = {}
    if key := os.environ.get("THREADLINE_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    if user := os.environ.get("THREADLINE_USER"):
        headers["Threadline-User"] = user
    return headers


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:7420", help="the server (default: %(default)s)")
    parser.add_argument("--thread", default="demo", help="thread to stream into (default: %(default)s)")
    parser.add_argument("--prompt", default=DEFAULT_PROMPT, help='what the user asks (default: "%(default)s")')
    parser.add_argument("--delay", type=float, default=0.03, help="seconds between two events (default: %(default)s)")
    args = parser.parse_args()

    try:
        asyncio.run(stream(args.url.rstrip("/"), args.thread, args.prompt, args.delay))
    except Failure as failure:
        sys.exit(str(failure))
    except httpx.TransportError as error:
        sys.exit(
            f"No response from {args.url} ({error!r}).\n"
            "Start a server with `threadline dev`, or pass the address of a running one with --url."
        )
    except httpx.InvalidURL as error:
        sys.exit(f"--url {args.url} is not a URL: {error}")
    except KeyboardInterrupt:
        sys.exit("Interrupted. The server ends the run when its lease expires.")


if __name__ == "__main__":
    main()
