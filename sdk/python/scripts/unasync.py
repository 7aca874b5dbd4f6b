"""Generates the synchronous client `_sync` from the asynchronous one, `_async`.

usage: unasync.py [--check]    with --check: exit 1 if a file differs
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src/threadline"

RULES = [
    # Types before words, since a rule for words would split them.
    (r"AsyncGenerator\[(.+?), None\]", r"Generator[\1, None, None]"),
    (r"Awaitable\[([\w.]+)\]", r"\1"),
    (r"Union\[str, str\]", "str"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\ba(close|read)\b", r"\1"),
    (r"\baiter_bytes\b", "iter_bytes"),
    (r"\bhttpx\.Async", "httpx."),
    (r"\b_runtime_async\b", "_runtime_sync"),
    # Names in lists of imports.
    (r"(?m)(^from typing import .*?)\bAwaitable(, |$)", r"\1"),
    (r"(?m), $", ""),
    (r"\bAsync([A-Z])", r"\1"),
    (r"\b_async\b", "_sync"),
    (r"`_sync` is generated from this folder by", "Generated from `_async` by"),
    (r"The asynchronous client\.", "The synchronous client."),
]


def synchronous(text: str) -> str:
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return text


def main() -> int:
    different = 0
    wanted = {path.name: synchronous(path.read_text()) for path in sorted((PACKAGE / "_async").glob("*.py"))}
    folder = PACKAGE / "_sync"
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.py"):
        if path.name not in wanted:
            different = 1
            if "--check" not in sys.argv:
                path.unlink()
    for name, text in wanted.items():
        path = folder / name
        if path.exists() and path.read_text() == text:
            continue
        different = 1
        if "--check" in sys.argv:
            print(f"{path} differs: run sdk/python/scripts/unasync.py")
        else:
            path.write_text(text)
    return different if "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
