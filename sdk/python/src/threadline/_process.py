"""A process of the server for tests, on a free port, with a data directory that is kept over restarts."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import List, Mapping, Optional, Sequence

from ._errors import ConfigError
from ._limits import SERVER_START

_LISTENING = "listening on http:"


class ServerProcess:
    """A running server: `threadline serve` with a key, else `threadline dev`."""

    def __init__(self, program: str, *, api_key: Optional[str] = None, args: Sequence[str] = ()) -> None:
        found = shutil.which(program)
        if found is None:
            raise ConfigError(f"there is no program {program}: install the wheel with the server, or name it by THREADLINE")
        self.api_key = api_key
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = Path(tempfile.mkdtemp(prefix="threadline-"))
        self._program = found
        self._args = list(args)
        self._process: Optional[subprocess.Popen[str]] = None
        self._reader: Optional[threading.Thread] = None
        try:
            self.restart()
        except BaseException:
            self.end()
            raise

    def restart(self) -> None:
        """Starts the server on the same port; kills it first if it is running."""
        self.kill()
        command = "dev" if self.api_key is None else "serve"
        self._process = subprocess.Popen(
            [self._program, command, "--listen", f"127.0.0.1:{self.port}", "--data", str(self.data), *self._args],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        said: List[str] = []
        ready = threading.Event()
        stdout = self._process.stdout
        assert stdout is not None

        def read() -> None:
            for line in stdout:
                # Without an end, the output of a process that lives for long would fill the memory.
                if not ready.is_set():
                    said.append(line)
                if _LISTENING in line:
                    ready.set()
            ready.set()

        self._reader = threading.Thread(target=read, name="server-output", daemon=True)
        self._reader.start()
        ready.wait(SERVER_START)
        output = "".join(said)
        if _LISTENING not in output:
            self.kill()
            raise ConfigError(f"the server does not start: {output.strip() or f'no output after {SERVER_START:.0f} s'}")

    def kill(self) -> None:
        """Sends SIGKILL, if the server is running."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        if self._reader:
            self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()
        self._process = None

    def end(self) -> None:
        """Kills the server, and removes its data."""
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)

    def _environment(self) -> Mapping[str, str]:
        """The environment of the server, without variables that would configure it."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("THREADLINE")}
        return {**kept, "NO_COLOR": "1", **({"THREADLINE_API_KEY": self.api_key} if self.api_key else {})}


def _free_port() -> int:
    # Below the range of ephemeral ports: a client that retries while the server is away could otherwise connect to itself.
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
