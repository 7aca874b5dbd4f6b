#!/usr/bin/env python3
"""Push a run into a Threadline thread, token by token. Python 3.9 or newer, nothing to install.

    threadline dev                                    in another terminal
    python3 examples/push_a_run.py "Hello there"      pushes a run into the thread "demo"
    threadline tail demo                              shows it, in a third terminal

A producer needs nothing more: replace `agent` with your own; `push` sends one streamed request,
whose body is the run, one event per line, as the events occur. Kill the server in the middle and
start it again: `push` reconnects and continues after the last stored event.
"""

import argparse
import http.client
import itertools
import json
import os
import re
import select
import sys
import time
import urllib.parse
import uuid

# How long a lost connection is retried, in seconds. The server keeps a silent run for its lease: 20 seconds.
PATIENCE = 20


def agent(question, pace):
    """Your agent: yields AG-UI events as they occur. This one streams a text, one token at a time."""
    message = str(uuid.uuid4())
    text = f"You said: {question}\n\n" + "".join(f"This is sentence {n} of 20. " for n in range(1, 21))
    yield {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"}
    for token in re.findall(r"\s*\S+", text):
        time.sleep(pace)
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": token}
    yield {"type": "TEXT_MESSAGE_END", "messageId": message}


class Refused(Exception):
    """The server refused the request. `problem` is its response (RFC 9457): a stable type, and a suggested fix."""

    def __init__(self, status, problem):
        super().__init__(f"{problem.get('title')} ({status}): {problem.get('detail')}. {problem.get('help', '')}")
        self.status = status
        self.problem = problem
        self.kind = problem.get("type", "").rsplit("/", 1)[-1]


class Threadline:
    """Requests to a Threadline server, with the Python standard library only."""

    def __init__(self, url):
        self.address = urllib.parse.urlsplit(url)
        self.headers = {}
        if os.environ.get("THREADLINE_API_KEY"):
            self.headers["Authorization"] = "Bearer " + os.environ["THREADLINE_API_KEY"]
        if os.environ.get("THREADLINE_USER"):
            self.headers["Threadline-User"] = os.environ["THREADLINE_USER"]

    def connect(self):
        secure = self.address.scheme == "https"
        connection = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return connection(self.address.netloc, timeout=30)

    def ask(self, method, path, body=None):
        """Sends one request and returns its JSON response."""
        connection = self.connect()
        try:
            headers = dict(self.headers, **{"Content-Type": "application/json"})
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            return answer(connection)
        finally:
            connection.close()

    def stream(self, path, lines):
        """Sends one request whose body grows with `lines`. The response may arrive before their end: a refusal, or the
        end of a run that was stopped."""
        connection = self.connect()
        try:
            connection.putrequest("POST", path)
            headers = {"Content-Type": "application/x-ndjson", "Transfer-Encoding": "chunked"}
            for name, value in {**self.headers, **headers}.items():
                connection.putheader(name, value)
            connection.endheaders()
            try:
                for line in lines:
                    connection.send(b"%x\r\n%s\r\n" % (len(line), line))
                    if select.select([connection.sock], [], [], 0)[0]:
                        break  # the server has responded early
                else:
                    connection.send(b"0\r\n\r\n")
            except OSError:
                pass  # the server closed the connection; its response, if any, is still to be read
            return answer(connection)
        finally:
            connection.close()


def answer(connection):
    response = connection.getresponse()
    text = response.read()
    if "json" not in response.headers.get("Content-Type", ""):
        raise Refused(response.status, {"title": "This is not a response from Threadline", "detail": text[:200]})
    body = json.loads(text)
    if response.status >= 400:
        raise Refused(response.status, body)
    return body


def push(server, thread, events, run_id):
    """Pushes a run; returns its record once it has ended. The agent's events are kept until then: after a lost
    connection the server knows how many of them are stored (`producerSeq` counts a run's events from 1), and the
    rest is sent again, under the same run id."""
    runs = f"/v1/threads/{urllib.parse.quote(thread, safe='')}/runs"
    said = []  # one event per line, as bytes: a repeated event must be identical

    def lines(first):
        for number in itertools.count(first):
            if number > len(said):
                event = next(events, None)
                if event is None:
                    return
                said.append(json.dumps(event, ensure_ascii=False).encode() + b"\n")
            yield said[number - 1]

    stored = 0
    broken_at = None
    while True:
        try:
            if broken_at:
                stored = stored_events(server, runs, run_id)
                note(f"Reconnected: {stored} events are stored, continuing after them.")
            broken_at = None
            return server.stream(f"{runs}?runId={run_id}&producerSeq={stored + 1}", lines(stored + 1))["run"]
        except Refused as refused:
            if refused.kind != "run-active":
                raise
            # 409: another run is active. A client can follow it from `cursor`, or stop it; this one waits.
            holder = refused.problem["run"]
            note(f"Run {holder['runId']} is active in the thread. Waiting for it to end.")
            time.sleep(1)
        except (OSError, http.client.HTTPException) as error:
            broken_at = broken_at or time.monotonic()
            if time.monotonic() - broken_at > PATIENCE:
                raise
            note(f"The connection broke ({error!r}). Reconnecting.")
            time.sleep(0.5)


def stored_events(server, runs, run_id):
    try:
        return server.ask("GET", f"{runs}/{run_id}")["producerSeq"]
    except Refused as refused:
        if refused.kind == "run-not-found":
            return 0
        raise


def note(text):
    print(text, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", nargs="?", default="Hello there", help="the user's message")
    parser.add_argument("--url", default=os.environ.get("THREADLINE_URL", "http://127.0.0.1:7420"), help="the server")
    parser.add_argument("--thread", default="demo", help="the thread (default: %(default)s)")
    parser.add_argument("--pace", type=float, default=50, metavar="MS", help="time per token (default: %(default)s)")
    args = parser.parse_args()

    server = Threadline(args.url)
    run_id = str(uuid.uuid4())
    # The user's message is part of the run: its first event contains it.
    question = {"id": str(uuid.uuid4()), "role": "user", "content": args.question}
    started = {"type": "RUN_STARTED", "threadId": args.thread, "runId": run_id}
    started["input"] = {"threadId": args.thread, "runId": run_id, "messages": [question], "tools": [], "context": []}
    events = itertools.chain([started], agent(args.question, args.pace / 1000))

    try:
        server.ask("POST", "/v1/threads", {"threadId": args.thread})
    except Refused as refused:
        if refused.status != 409:  # the thread exists with other options, which is no error here
            raise
    run = push(server, args.thread, events, run_id)
    print(f"The run {run['runId']} is {run['status']}: events {run['firstSeq']} to {run['lastSeq']} of {args.thread}.")


if __name__ == "__main__":
    try:
        main()
    except Refused as refusal:
        sys.exit(str(refusal))
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"The server is unreachable: {error}. Start one with `threadline dev`, or pass --url.")
    except KeyboardInterrupt:
        sys.exit("Interrupted. The server ends the run when its lease expires.")
