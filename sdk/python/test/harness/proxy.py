"""The network between a client and the server: forwards all bytes by default."""

from __future__ import annotations

import socket
import threading
from typing import List, Optional, Set, Tuple


class Proxy:
    """A listener in threads of its own, which forwards to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._pairs: Set[Tuple[socket.socket, socket.socket]] = set()
        self._threads: List[threading.Thread] = []
        self._over = False
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: List[str] = []
        """Requests that were received, as `GET /path`."""
        self.heads: List[bytes] = []
        self.refuse = False
        """Connections end as soon as they are accepted."""
        self.swallow_answers = 0
        """Number of answers to POST requests that are dropped, with their connection, once the server has sent them."""
        self.instead: Optional[bytes] = None
        """A complete response to every request in place of the server's."""
        self.instead_of_streams: Optional[bytes] = None
        """A response to requests for event streams in place of the server's."""
        self.silent_streams = False
        """Requests for event streams have no response at all."""
        self.piece: Optional[int] = None
        """Bytes of the server's are forwarded in pieces of this size."""
        self._spawn(self._accept)

    def cut(self) -> int:
        """Ends all connections abruptly; returns their number."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                _end(end)
        return len(pairs)

    def end(self) -> None:
        self._over = True
        _end(self._listener)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def _spawn(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args, name="proxy", daemon=True)  # type: ignore[arg-type]
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def _accept(self) -> None:
        while not self._over:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.refuse or self._over:
                near.close()
                continue
            self._spawn(self._serve, near)

    def _serve(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = (near, far)
        with self._lock:
            self._pairs.add(pair)
        state = {"method": ""}
        down = threading.Thread(target=self._down, args=(near, far, state), name="proxy-down", daemon=True)
        down.start()
        try:
            while chunk := near.recv(65_536):
                if not self._up(chunk, near, far, state):
                    break
        except OSError:
            pass
        finally:
            _end(near)
            _end(far)
            down.join()
            near.close()
            far.close()
            with self._lock:
                self._pairs.discard(pair)

    def _up(self, chunk: bytes, near: socket.socket, far: socket.socket, state: dict[str, str]) -> bool:
        head = chunk.split(b"\r\n\r\n", 1)[0]
        line = head.split(b"\r\n", 1)[0].split(b" ")
        if len(line) == 3 and line[2].startswith(b"HTTP/"):
            state["method"] = line[0].decode()
            self.requests.append(f"{line[0].decode()} {line[1].decode()}")
            self.heads.append(head)
            is_stream = b"text/event-stream" in head
            instead = self.instead if self.instead is not None else self.instead_of_streams if is_stream else None
            if instead is not None:
                near.sendall(instead)
                return False
            if is_stream and self.silent_streams:
                return True
        far.sendall(chunk)
        return True

    def _down(self, near: socket.socket, far: socket.socket, state: dict[str, str]) -> None:
        try:
            while chunk := far.recv(65_536):
                if self.swallow_answers and state["method"] == "POST":
                    self.swallow_answers -= 1
                    break
                size = self.piece or len(chunk)
                for at in range(0, len(chunk), size):
                    near.sendall(chunk[at : at + size])
        except OSError:
            pass
        finally:
            _end(near)
            _end(far)


def _end(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended already
