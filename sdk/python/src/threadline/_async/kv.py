"""Key-value entries: data of agents outside the logs of threads."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence

from .._calls import Call
from .._errors import ProtocolError
from .._opening import UNSET
from ..kv import Delete, Entry, Found, Get, ListNamespaces, Match, Namespaces, Op, Put, Result, Search, Touch, from_wire, to_wire
from .http import AsyncHttp


class AsyncKv:
    """Entries of the client's user, or of the project if the client has none. Requires an API key with the scope `produce`."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def batch(self, ops: Sequence[Op]) -> List[Result]:
        """Carries out operations of `threadline.kv`, and returns their results in order.

        Reads return what was stored before the batch. The writes are atomic: all are stored in one commit, or none. If an entry does
        not have the tag of its `if_tag`, the call raises `KvChanged`, with the `index` of the operation in `problem`. Retries of
        a `Put`, and of a `Delete` with `if_tag` or `tag`, are idempotent. The retry of another `Delete` that took effect returns False.
        """
        if not ops:
            return []
        writes = any(isinstance(op, (Put, Delete, Touch)) for op in ops)
        body = {"ops": [to_wire(op) for op in ops]}
        answer = await self._http.call(Call(["kv"], "POST", body=body, kind="writes" if writes else "reads"))
        results = answer.get("results", [])
        if len(results) != len(ops):
            raise ProtocolError(f"{len(results)} results for {len(ops)} operations")
        return [from_wire(op, result) for op, result in zip(ops, results, strict=True)]

    async def get(self, ns: Sequence[str], key: str) -> Optional[Entry]:
        """The entry; None if there is none."""
        entry: Optional[Entry] = await self._one(Get(ns, key))
        return entry

    async def put(
        self,
        ns: Sequence[str],
        key: str,
        value: Any,
        *,
        ttl_seconds: Optional[int] = None,
        if_tag: Optional[str] = UNSET,
        thread_id: Optional[str] = None,
    ) -> str:
        """Stores a value, and returns the new tag of the entry.

        With `ttl_seconds` the entry expires; with `thread_id` it is deleted with that thread. A call without them clears them.
        `if_tag`: the tag that the entry must have, or None if there must be no entry; otherwise the call raises `KvChanged`.
        """
        put = Put(ns, key, value, ttl_seconds=ttl_seconds, if_tag=if_tag, thread_id=thread_id)
        tag: str = await self._one(put)
        return tag

    async def delete(self, ns: Sequence[str], key: str, *, if_tag: Optional[str] = UNSET) -> bool:
        """Removes an entry. Returns False if there was none."""
        deleted: bool = await self._one(Delete(ns, key, if_tag))
        return deleted

    async def touch(self, ns: Sequence[str], key: str, *, ttl_seconds: Optional[int] = None) -> bool:
        """Refreshes the TTL of an entry, and changes nothing else. Returns False if there is no entry.

        `ttl_seconds`: the new TTL, by default the one that the entry has. With neither, the entry does not expire.
        """
        touched: bool = await self._one(Touch(ns, key, ttl_seconds))
        return touched

    async def search(
        self,
        prefix: Sequence[str] = (),
        *,
        filter: Optional[Mapping[str, Any]] = None,
        query: Optional[str] = None,
        limit: Optional[int] = None,
        offset: Optional[int] = None,
        cursor: Optional[str] = None,
    ) -> Found:
        """A page of entries whose namespaces begin with `prefix`: 10 by default, and `limit` is at most 1,000.

        `filter` compares top-level members of the values: with a value, or with `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and `$lte`.
        `query` is a text with up to 256 different words: entries that contain most of them come first, and entries without any are
        left out. A filter has at most 64 conditions. `cursor`: the `cursor` of the previous page.
        """
        search = Search(prefix, filter=filter, query=query, limit=limit, offset=offset, cursor=cursor)
        found: Found = await self._one(search)
        return found

    async def namespaces(
        self,
        match: Sequence[Match] = (),
        *,
        max_depth: Optional[int] = None,
        limit: Optional[int] = None,
        offset: Optional[int] = None,
        cursor: Optional[str] = None,
    ) -> Namespaces:
        """A page of namespaces that meet all conditions: 10 by default, and `limit` is at most 1,000."""
        ask = ListNamespaces(match, max_depth=max_depth, limit=limit, offset=offset, cursor=cursor)
        listed: Namespaces = await self._one(ask)
        return listed

    async def _one(self, op: Op) -> Any:
        return (await self.batch([op]))[0]
