"""Acknowledged events of a run, kept in case the server loses them: a failover or a restore may lose the newest commits."""

from __future__ import annotations

from collections import deque
from typing import Deque, List, Tuple

from ._limits import SENT_BYTES


class Sent:
    """The newest acknowledged events of one producer, as JSON texts."""

    def __init__(self, following: int) -> None:
        self.first = following
        """producerSeq of the first event that is kept; the one after the last if none is."""
        self._next = following
        self._batches: Deque[Tuple[List[str], int]] = deque()
        self._size = 0

    def add(self, texts: List[str]) -> None:
        """Keeps a batch that follows the last one."""
        size = sum(map(len, texts))
        self._batches.append((texts, size))
        self._size += size
        self._next += len(texts)
        while self._size > SENT_BYTES:
            dropped, size = self._batches.popleft()
            self._size -= size
            self.first += len(dropped)

    def take_from(self, producer_seq: int) -> List[str]:
        """Removes the events from this producerSeq on, which must not be before `first`, and returns them."""
        lost: List[str] = []
        while self._next > producer_seq and self._batches:
            texts, size = self._batches.pop()
            self._size -= size
            self._next -= len(texts)
            kept = max(0, producer_seq - self._next)
            lost[:0] = texts[kept:]
            if kept:
                self.add(texts[:kept])
        return lost
