"""A small HTTP server for one agent, in a thread, since the sets with LangGraph have no server of their own."""

from __future__ import annotations

import asyncio
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Optional, Type

from threadline.agui import Agent, RunAgentInput, frames


class Serving:
    """Serves an agent, in a block of `with`, whose value is the address."""

    def __init__(self, agent: Agent) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                asyncio.run(self.answer(RunAgentInput.of(body), int(self.headers.get("Threadline-Attempt", "1"))))

            async def answer(self, input: RunAgentInput, attempt: int) -> None:
                async for frame in frames(agent, input, attempt):
                    self.wfile.write(frame)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
