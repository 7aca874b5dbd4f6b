"""Writers of logs, and the check of what readers have received."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from threadline import Batch, Events, Item

STRANGE = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\r\nj é 漢字 🎈 \x00"
"""Separators for `str.splitlines`, and characters of up to four bytes."""


class Received:
    """The events of a subscription, which have to be dense."""

    def __init__(self, after: int = 0) -> None:
        self.at = after
        self.events: List[Dict[str, Any]] = []
        self.kinds: List[str] = []

    def take(self, item: Item) -> None:
        self.kinds.append(type(item).__name__)
        if isinstance(item, Events):
            for batch in item.batches:
                self._batch(batch)

    def _batch(self, batch: Batch) -> None:
        assert batch.events and batch.seq == self.at + 1, f"seq {batch.seq} after {self.at}"
        self.at += len(batch.events)
        self.events += batch.events


def run_of(name: str, texts: List[str]) -> Tuple[str, List[Dict[str, Any]]]:
    """A complete run with a message of these pieces."""
    content = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": text} for text in texts]
    start = {"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"}
    return name, [start, *content, {"type": "TEXT_MESSAGE_END", "messageId": name}]
