"""A LangGraph store: long-term memory across threads."""

from __future__ import annotations

from typing import Iterable, List, Optional

from langgraph.store.base import BaseStore, Op, Result, TTLConfig

from .._async.kv import AsyncKv
from .._errors import ConfigError, ThreadlineError
from .._sync.kv import Kv
from ._clients import Calls, Client
from ._store_steps import Steps


class ThreadlineStore(BaseStore):
    """A `BaseStore` on key-value entries of the client's user, or of the project if the client has none.

    A search with `query` compares words; there are no embeddings, and no semantic search. With a `Threadline`, all methods work;
    with an `AsyncThreadline`, only the asynchronous ones. `ttl` has the default TTL of items, in minutes.
    """

    supports_ttl = True

    def __init__(self, client: Client, *, ttl: Optional[TTLConfig] = None, index: object = None) -> None:
        if index is not None:
            raise ConfigError("Threadline has no embeddings: leave index out, and search by words and filters")
        self.ttl_config = ttl
        self._calls: Calls[Kv, AsyncKv] = Calls(client, lambda one: one.kv, lambda one: one.kv)

    def batch(self, ops: Iterable[Op]) -> List[Result]:
        """Carries out operations: first the reads, then the writes, in commits of up to 1,000 writes."""
        kv = self._calls.synchronous
        steps = Steps(ops)
        while steps.asked is not None:
            try:
                answers = kv.batch(steps.asked)
            except ThreadlineError as error:
                steps.fail(error)
            else:
                steps.answer(answers)
        return steps.results

    async def abatch(self, ops: Iterable[Op]) -> List[Result]:
        kv = self._calls.asynchronous
        steps = Steps(ops)
        while steps.asked is not None:
            try:
                answers = await kv.batch(steps.asked)
            except ThreadlineError as error:
                steps.fail(error)
            else:
                steps.answer(answers)
        return steps.results
