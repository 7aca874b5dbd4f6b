"""The real server, with a data directory and a port that are kept over restarts."""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, Dict, List, Optional

import httpx

BINARY = os.environ.get("THREADLINE", str(Path(__file__).resolve().parents[4] / "target/debug/threadline"))


class Server:
    """A process of the server. With a key it asks for one; without it runs in development mode."""

    def __init__(self, api_key: Optional[str] = None, args: Optional[List[str]] = None) -> None:
        if not os.path.exists(BINARY):
            raise FileNotFoundError(f"there is no {BINARY}: cargo build, or name the server's program by THREADLINE")
        self.api_key = api_key
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._args = args or []
        self._data = tempfile.mkdtemp(prefix="threadline-python-")
        self._process: Optional[subprocess.Popen[str]] = None
        self._reader: Optional[threading.Thread] = None
        self.restart()

    def restart(self) -> None:
        """Starts the server; kills it first if it is running."""
        self.kill()
        command = "dev" if self.api_key is None else "serve"
        env = {"PATH": os.environ["PATH"], "NO_COLOR": "1", **({"THREADLINE_API_KEY": self.api_key} if self.api_key else {})}
        self._process = subprocess.Popen(
            [BINARY, command, "--listen", f"127.0.0.1:{self.port}", "--data", self._data, *self._args],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said: List[str] = []
        ready = threading.Event()
        stdout = self._process.stdout
        assert stdout is not None

        def read() -> None:
            for line in stdout:
                said.append(line)
                if re.search(r"listening on http:", line):
                    ready.set()
            ready.set()

        self._reader = threading.Thread(target=read, name="server-output", daemon=True)
        self._reader.start()
        ready.wait(30)
        if self._process.poll() is not None or not any("listening on" in line for line in said):
            raise RuntimeError(f"the server does not start: {''.join(said)}")

    def kill(self) -> None:
        """Sends SIGKILL."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        if self._reader:
            self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()
        self._process = None

    def save(self) -> str:
        """Copies the database of the killed server, and starts it again."""
        self.kill()
        saved = tempfile.mkdtemp(prefix="threadline-python-saved-")
        for path in Path(self._data).glob("threadline.db*"):
            shutil.copy(path, saved)
        self.restart()
        return saved

    def lose(self, saved: str) -> None:
        """Puts a copy in the place of the database: what was committed since is lost."""
        self.kill()
        for path in Path(self._data).glob("threadline.db*"):
            path.unlink()
        for path in Path(saved).iterdir():
            shutil.copy(path, self._data)
        shutil.rmtree(saved)
        self.restart()

    def end(self) -> None:
        self.kill()
        shutil.rmtree(self._data, ignore_errors=True)

    def request(self, method: str, path: str, body: Any = None, user: Optional[str] = None) -> Any:
        """Sends a raw request, with the key of the server."""
        headers: Dict[str, str] = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        if user is not None:
            headers["Threadline-User"] = user
        response = httpx.request(method, self.url + path, json=body, headers=headers, timeout=30)
        response.raise_for_status()
        return response.json() if response.content else None

    def log(self, thread_id: str) -> List[Dict[str, Any]]:
        """All events of a thread, with their positions."""
        path = f"/v1/threads/{thread_id}/events?limit=10000"
        page = self.request("GET", path)
        events: List[Dict[str, Any]] = page["events"]
        while page["hasMore"]:
            page = self.request("GET", f"{path}&cursor={page['nextCursor']}")
            events += page["events"]
        return events


def _free_port() -> int:
    # Below the range of ephemeral ports: a client that retries while the server is down could otherwise connect to itself.
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
