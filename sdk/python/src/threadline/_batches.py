"""The queue of a producer, and what its events and errors mean."""

from __future__ import annotations

from typing import List, Sequence

from ._errors import ConfigError
from ._json import JsonObject, to_json
from ._limits import BATCH_BYTES, BATCH_EVENTS, PENDING_BYTES, PENDING_EVENTS
from .problems import ProducerSeqConflict, ProducerSeqGap, RunFenced, RunNotFound, ThreadNotFound


def type_of(event: JsonObject) -> str:
    """The type of an event; a `ConfigError` if it has none."""
    type_ = event.get("type")
    if not isinstance(type_, str):
        raise ConfigError("an event must be a JSON object with a type")
    return type_


def is_terminal(event: JsonObject) -> bool:
    """True for the last event of a run."""
    return event["type"] in ("RUN_FINISHED", "RUN_ERROR")


def is_over(error: BaseException) -> bool:
    """True for refusals which mean that the run has ended, or belongs to another producer: this producer must not end it."""
    return isinstance(error, (RunFenced, RunNotFound, ThreadNotFound, ProducerSeqConflict, ProducerSeqGap))


class Pending:
    """JSON texts of events that are not acknowledged yet, oldest first, including those of the batch in flight."""

    def __init__(self) -> None:
        self._texts: List[str] = []
        self._size = 0

    @property
    def count(self) -> int:
        return len(self._texts)

    @property
    def is_full(self) -> bool:
        return len(self._texts) >= PENDING_EVENTS or self._size >= PENDING_BYTES

    def add(self, events: Sequence[JsonObject]) -> None:
        """Queues all of these events, or none."""
        if len(self._texts) > 2 * PENDING_EVENTS or self._size > 2 * PENDING_BYTES:
            raise ConfigError("events are appended faster than they can be sent: await each append")
        texts = [to_json(event) for event in events]
        self._texts += texts
        self._size += sum(map(len, texts))

    def batch(self) -> List[str]:
        return self.first(self._texts)

    def drop(self, batch: Sequence[str]) -> None:
        """Removes a batch that was acknowledged."""
        del self._texts[: len(batch)]
        self._size -= sum(map(len, batch))

    @staticmethod
    def first(texts: List[str]) -> List[str]:
        """The first events, as many as fit into one request."""
        size = count = 0
        for text in texts:
            size += len(text)
            if count == BATCH_EVENTS or (count and size > BATCH_BYTES):
                break
            count += 1
        return texts[:count]
