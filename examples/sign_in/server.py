#!/usr/bin/env python3
"""A backend that signs people in and hands their browsers a token, with nothing but Python's standard library.

    export THREADLINE_API_KEY=$(openssl rand -hex 32)
    threadline serve &
    BACKEND_KEY=$(threadline keys create sign-in --scopes read,chat,approve,tokens) examples/sign_in/server.py

Then open http://localhost:8000, sign in under any name, and send a message: each name has its own threads. A real backend
checks a password, or asks an identity provider, before it calls `token`.
"""

import json
import os
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

THREADLINE = os.environ.get("THREADLINE_URL", "http://localhost:7420").rstrip("/")
PORT = int(os.environ.get("PORT", "8000"))
PAGE = Path(__file__).with_name("page.html").read_text(encoding="utf-8").replace("THREADLINE_URL", THREADLINE)


def token(user):
    """A token that lets a browser act as this user for five minutes."""
    body = json.dumps({"userId": user, "expiresInSeconds": 300}).encode()
    headers = {"Authorization": "Bearer " + os.environ["BACKEND_KEY"], "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(THREADLINE + "/v1/tokens", body, headers), timeout=10) as answer:
        return answer.read()


class Backend(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, "text/html; charset=utf-8", PAGE.encode())

    def do_POST(self):
        # Only this page may call: JSON from a page of another origin requires a preflight request, which fails.
        if self.path != "/session" or self.headers.get("Content-Type") != "application/json":
            return self.answer(404, "text/plain", b"not here")
        user = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))["user"]
        self.answer(200, "application/json", token(user))

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    print(f"Sign in at http://localhost:{PORT}", flush=True)
    ThreadingHTTPServer(("127.0.0.1", PORT), Backend).serve_forever()
