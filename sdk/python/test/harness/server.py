"""The real server, whose data a test may save and lose."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

import httpx
from threadline._process import ServerProcess

BINARY = os.environ.get("THREADLINE", str(Path(__file__).resolve().parents[4] / "target/debug/threadline"))


class Server(ServerProcess):
    """A process of the server. With a key it asks for one; without it runs in development mode."""

    def __init__(self, api_key: Optional[str] = None, args: Optional[List[str]] = None) -> None:
        super().__init__(BINARY, api_key=api_key, args=args or [])

    def save(self) -> str:
        """Copies the database of the killed server, and starts it again."""
        self.kill()
        saved = tempfile.mkdtemp(prefix="threadline-python-saved-")
        for path in self.data.glob("threadline.db*"):
            shutil.copy(path, saved)
        self.restart()
        return saved

    def lose(self, saved: str) -> None:
        """Puts a copy in the place of the database: what was committed since is lost."""
        self.kill()
        for path in self.data.glob("threadline.db*"):
            path.unlink()
        for path in Path(saved).iterdir():
            shutil.copy(path, self.data)
        shutil.rmtree(saved)
        self.restart()

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
