"""Requests of a store, as generators: each yields operations on key-value entries, and is sent their results.

Entries of the store are below the label `langgraph`, so that a search without a prefix finds no entries of other programs.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Callable, Dict, Generator, Iterable, List, Optional, Sequence, Tuple, TypeVar

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from .. import kv
from .._errors import ConfigError, ThreadlineError
from .._limits import KV_OPS, KV_PAGE
from ..problems import TooLarge

T = TypeVar("T")

ROOT = "langgraph"
"""First label of all namespaces. LangGraph allows no namespace of an application to begin with it."""

Asking = Generator[Sequence[kv.Op], Any, T]
"""Yields batches of operations, and is sent their results, or the error of a batch."""


class Steps:
    """The requests that some operations need, one after the other."""

    def __init__(self, ops: Iterable[Op]) -> None:
        self._asking = batch(ops)
        self.asked: Optional[Sequence[kv.Op]] = None
        """The next request; None at the end."""
        self.results: List[Result] = []
        self._go_on(lambda: next(self._asking))

    def answer(self, answers: Sequence[kv.Result]) -> None:
        self._go_on(lambda: self._asking.send(answers))

    def fail(self, error: ThreadlineError) -> None:
        """Raises the error, unless the request can be made in another way."""
        self._go_on(lambda: self._asking.throw(error))

    def _go_on(self, step: Callable[[], Sequence[kv.Op]]) -> None:
        try:
            self.asked = step()
        except StopIteration as end:
            self.asked, self.results = None, end.value


def batch(ops: Iterable[Op]) -> Asking[List[Result]]:
    """The results of operations. All reads come first, and return what was stored before the writes."""
    listed = list(ops)
    for op in listed:
        check(op)
    results: List[Result] = [None] * len(listed)
    refreshed: List[kv.Entry] = []
    gets = [(index, op) for index, op in enumerate(listed) if isinstance(op, GetOp)]
    for at in range(0, len(gets), KV_OPS):
        yield from _get(gets[at : at + KV_OPS], results, refreshed)
    for index, op in enumerate(listed):
        if isinstance(op, SearchOp):
            entries = yield from _search(op)
            results[index] = [_found(entry) for entry in entries]
            if op.refresh_ttl:
                refreshed += entries
        elif isinstance(op, ListNamespacesOp):
            results[index] = yield from _namespaces(op)
    yield from _refresh(refreshed)
    writes = [_write(op) for op in listed if isinstance(op, PutOp)]
    for at in range(0, len(writes), KV_OPS):
        yield writes[at : at + KV_OPS]
    return results


def check(op: Op) -> None:
    """Refuses labels that LangGraph does not allow. Its methods do the same, but `batch` is also called directly."""
    if isinstance(op, (GetOp, PutOp)):
        paths: Sequence[Sequence[object]] = [op.namespace]
    elif isinstance(op, SearchOp):
        paths = [op.namespace_prefix]
    elif isinstance(op, ListNamespacesOp):
        paths = [condition.path for condition in op.match_conditions or ()]
    else:
        raise ConfigError(f"{type(op).__name__} is no operation of a store")
    for path in paths:
        for label in path:
            if not isinstance(label, str) or not label or "." in label or "\0" in label:
                raise InvalidNamespaceError(f"{label!r} in {path!r} is no label: a label is a text without periods and NULs")


def _get(gets: Sequence[Tuple[int, GetOp]], results: List[Result], refreshed: List[kv.Entry]) -> Asking[None]:
    try:
        entries = yield [kv.Get(_ns(op.namespace), op.key) for _, op in gets]
    except TooLarge:
        # The values of these entries do not fit into one answer.
        if len(gets) == 1:
            raise
        half = len(gets) // 2
        yield from _get(gets[:half], results, refreshed)
        yield from _get(gets[half:], results, refreshed)
        return
    for (index, op), entry in zip(gets, entries, strict=True):
        if entry is not None:
            results[index] = Item(**_members(entry))
            if op.refresh_ttl:
                refreshed.append(entry)


def _search(op: SearchOp) -> Asking[List[kv.Entry]]:
    """Entries in the order of namespace and key, or of their scores. The server scans a part of the entries for each request."""
    wanted = op.offset + op.limit
    found: List[kv.Entry] = []
    cursor: Optional[str] = None
    while wanted > 0:
        part, cursor = yield from _part(op, wanted if op.query else wanted - len(found), cursor)
        found += part
        if op.query:
            found.sort(key=lambda entry: -(entry.score or 0))
        del found[wanted:]
        if cursor is None or (not op.query and len(found) == wanted):
            break
    return found[op.offset :]


def _part(op: SearchOp, wanted: int, cursor: Optional[str]) -> Asking[Tuple[List[kv.Entry], Optional[str]]]:
    """The entries that the server finds in one part, in pages, and the cursor of the next part."""
    part: List[kv.Entry] = []
    while True:
        limit = min(KV_PAGE, wanted - len(part))
        search = kv.Search(
            _ns(op.namespace_prefix),
            filter=op.filter,
            query=op.query or None,
            limit=limit,
            offset=len(part),
            cursor=cursor,
        )
        page: kv.Found = (yield [search])[0]
        part += page.items
        # The cursor is behind the last result, or, with words, behind all entries that were compared.
        if not op.query or len(page.items) < limit or len(part) == wanted:
            return part, page.cursor


def _namespaces(op: ListNamespacesOp) -> Asking[List[Tuple[str, ...]]]:
    match = [kv.Match("prefix", [ROOT])]
    for condition in op.match_conditions or ():
        labels = list(condition.path)
        if condition.match_type == "prefix":
            match.append(kv.Match("prefix", [ROOT, *labels]))
        else:
            # The root is no label of the namespace, so a suffix must not reach it.
            match += [kv.Match("suffix", labels), kv.Match("prefix", [ROOT, *["*"] * len(labels)])]
    depth = None if op.max_depth is None else op.max_depth + 1
    wanted = op.offset + op.limit
    found: List[Tuple[str, ...]] = []
    cursor: Optional[str] = None
    while len(found) < wanted:
        limit = min(KV_PAGE, wanted - len(found))
        page: kv.Namespaces = (yield [kv.ListNamespaces(match, max_depth=depth, limit=limit, cursor=cursor)])[0]
        found += [tuple(labels[1:]) for labels in page.namespaces]
        cursor = page.cursor
        if cursor is None:
            break
    return found[op.offset :]


def _refresh(entries: Iterable[kv.Entry]) -> Asking[None]:
    """Refreshes the TTL of entries that expire, once for each entry."""
    expiring = {(*entry.ns, entry.key): kv.Touch(entry.ns, entry.key) for entry in entries if entry.expires_at is not None}
    touches = list(expiring.values())
    for at in range(0, len(touches), KV_OPS):
        yield touches[at : at + KV_OPS]


def _write(op: PutOp) -> kv.Write:
    if op.value is None:
        return kv.Delete(_ns(op.namespace), op.key)
    seconds = None if op.ttl is None else max(1, math.ceil(op.ttl * 60))
    return kv.Put(_ns(op.namespace), op.key, dict(op.value), ttl_seconds=seconds)


def _ns(labels: Iterable[str]) -> List[str]:
    return [ROOT, *labels]


def _found(entry: kv.Entry) -> SearchItem:
    return SearchItem(**_members(entry), score=entry.score)


def _members(entry: kv.Entry) -> Dict[str, Any]:
    return {
        "namespace": tuple(entry.ns[1:]),
        "key": entry.key,
        "value": entry.value,
        "created_at": _time(entry.created_at),
        "updated_at": _time(entry.updated_at),
    }


def _time(text: str) -> datetime:
    # Python 3.10 does not parse the suffix Z.
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
