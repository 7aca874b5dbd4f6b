"""A real server, which says whether it accepts the events of a run."""

import json
import os
import re
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

_ROOT = Path(__file__).resolve().parents[4]
_BINARY = Path(os.environ.get("THREADLINE", _ROOT / "target/debug/threadline"))
_TIMEOUT_S = 30


class Server:
    def __enter__(self) -> "Server":
        if not _BINARY.exists():
            raise FileNotFoundError(f"there is no {_BINARY}: cargo build, or name the server's program by THREADLINE")
        self._data = tempfile.TemporaryDirectory(prefix="threadline-pipe-")
        command = [str(_BINARY), "dev", "--listen", "127.0.0.1:0", "--data", self._data.name]
        log = subprocess.PIPE
        self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={"PATH": os.environ["PATH"]})
        self._url = self._address()
        self._runs = 0
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
        self._data.cleanup()

    def _address(self) -> str:
        assert self._process.stdout is not None
        said: list[str] = []
        for line in self._process.stdout:
            said.append(line.decode(errors="replace"))
            found = re.search(r"listening on (http://\S+)", said[-1])
            if found:
                return found[1].rstrip("/")
        raise RuntimeError("the server ended at once:\n" + "".join(said))

    def refusal(self, events: list[dict[str, Any]]) -> str | None:
        """Why the server refuses a run of these events, as events of AG-UI; ``None`` if it stores them."""
        self._runs += 1
        thread, run = f"thread-{self._runs}", f"run-{self._runs}"
        started = {"type": "RUN_STARTED", "threadId": thread, "runId": run}
        body = [started, *events, {"type": "RUN_FINISHED", "threadId": thread, "runId": run}]
        self._send("POST", "/v1/threads", json.dumps({"threadId": thread}).encode())
        try:
            lines = "".join(json.dumps(event) + "\n" for event in body)
            self._send("PUT", f"/v1/threads/{thread}/runs/{run}?validate=ag-ui", lines.encode())
        except urllib.error.HTTPError as error:
            problem = json.loads(error.read())
            at = problem.get("index")
            return f"{problem} at {body[at] if isinstance(at, int) else at}"
        return None

    def messages(self) -> list[dict[str, Any]]:
        """The messages of the thread with the run of the last call, as the server folds them."""
        found: list[dict[str, Any]] = self._send("GET", f"/v1/threads/thread-{self._runs}/messages", None)["messages"]
        return found

    def _send(self, method: str, path: str, body: bytes | None) -> Any:
        request = urllib.request.Request(self._url + path, body, method=method)
        request.add_header("Content-Type", "application/x-ndjson" if path.endswith("ag-ui") else "application/json")
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            return json.loads(response.read())
