"""Operations on key-value entries, for `client.kv.batch`, and their results.

A namespace is a list of labels. Entries belong to the client's user, or to the project if the client has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Literal, Mapping, Optional, Sequence, Union

from ._errors import ConfigError, ProtocolError
from ._ids import new_id
from ._json import JsonObject
from ._opening import UNSET
from ._records import Entry


@dataclass(frozen=True)
class Get:
    """Reads an entry. The result is an `Entry`, or None."""

    ns: Sequence[str]
    key: str


@dataclass(frozen=True)
class Put:
    """Stores an entry. The result is its new tag.

    `if_tag`: the tag that the entry must have, or None if there must be no entry; otherwise the batch raises `KvChanged`. `tag`: the
    new tag, by default a random one. With `thread_id` the entry is deleted with that thread.
    """

    ns: Sequence[str]
    key: str
    value: Any
    ttl_seconds: Optional[int] = None
    if_tag: Optional[str] = UNSET
    tag: Optional[str] = None
    thread_id: Optional[str] = None


@dataclass(frozen=True)
class Delete:
    """Removes an entry. The result is False if there was none.

    `tag`: the tag by which the server recognizes a retry, for 24 hours. With `if_tag`, the default is a random one; otherwise, none.
    """

    ns: Sequence[str]
    key: str
    if_tag: Optional[str] = UNSET
    tag: Optional[str] = None


@dataclass(frozen=True)
class Touch:
    """Refreshes the TTL of an entry, and changes nothing else. The result is False if there is no entry.

    `ttl_seconds`: the new TTL, by default the one that the entry has. With neither, the entry does not expire.
    """

    ns: Sequence[str]
    key: str
    ttl_seconds: Optional[int] = None


@dataclass(frozen=True)
class Search:
    """Finds entries whose namespaces begin with `prefix`. The result is `Found`.

    `filter`: conditions on top-level members of the values. `query`: words; entries that contain most of them come
    first. `cursor`: the `cursor` of the previous result.
    """

    prefix: Sequence[str] = ()
    filter: Optional[Mapping[str, Any]] = None
    query: Optional[str] = None
    limit: Optional[int] = None
    offset: Optional[int] = None
    cursor: Optional[str] = None


@dataclass(frozen=True)
class Match:
    """A condition on the first labels of a namespace, or on its last ones. `*` stands for any label."""

    kind: Literal["prefix", "suffix"]
    path: Sequence[str]


@dataclass(frozen=True)
class ListNamespaces:
    """Lists namespaces that meet all conditions, cut to `max_depth` labels. The result is `Namespaces`."""

    match: Sequence[Match] = ()
    max_depth: Optional[int] = None
    limit: Optional[int] = None
    offset: Optional[int] = None
    cursor: Optional[str] = None


@dataclass(frozen=True)
class Found:
    """A page of entries that a search has found."""

    items: List[Entry]
    scanned: int
    """Number of entries that the server has scanned."""
    cursor: Optional[str]
    """Continues the search; None if all entries were scanned."""


@dataclass(frozen=True)
class Namespaces:
    """A page of namespaces, sorted by their labels, each of them once."""

    namespaces: List[List[str]]
    scanned: int
    """Number of namespaces that the server has scanned."""
    cursor: Optional[str]
    """Continues the list; None at its end."""


Op = Union[Get, Put, Delete, Touch, Search, ListNamespaces]
"""An operation of a batch."""
Write = Union[Put, Delete, Touch]
"""An operation that an item list can store in its own commit."""
Result = Union[Entry, str, bool, Found, Namespaces, None]
"""The result of an operation, as its class describes it."""


def to_wire(op: Op) -> JsonObject:
    """An operation as the request has it. A `Put`, and a `Delete` with a condition, get a tag, so that the server recognizes a retry."""
    if isinstance(op, Get):
        return {"op": "get", "ns": labels(op.ns), "key": op.key}
    if isinstance(op, Put):
        tag = new_id() if op.tag is None else op.tag
        given = _given(ttlSeconds=op.ttl_seconds, threadId=op.thread_id)
        return {"op": "put", "ns": labels(op.ns), "key": op.key, "value": op.value, "tag": tag, **given, **condition(op.if_tag)}
    if isinstance(op, Delete):
        name = new_id() if op.tag is None and op.if_tag is not UNSET else op.tag
        return {"op": "delete", "ns": labels(op.ns), "key": op.key, **_given(tag=name), **condition(op.if_tag)}
    if isinstance(op, Touch):
        return {"op": "touch", "ns": labels(op.ns), "key": op.key, **_given(ttlSeconds=op.ttl_seconds)}
    page = _given(limit=op.limit, offset=op.offset, cursor=op.cursor)
    if isinstance(op, Search):
        return {"op": "search", "prefix": labels(op.prefix), **_given(filter=op.filter, query=op.query), **page}
    match = [{"kind": one.kind, "path": labels(one.path)} for one in op.match]
    return {"op": "namespaces", "match": match, **_given(maxDepth=op.max_depth), **page}


def from_wire(op: Op, result: JsonObject) -> Result:
    """The result of an operation."""
    try:
        if isinstance(op, Get):
            return None if result["item"] is None else Entry.of(result["item"])
        if isinstance(op, Put):
            tag: str = result["tag"]
            return tag
        if isinstance(op, Delete):
            deleted: bool = result["deleted"]
            return deleted
        if isinstance(op, Touch):
            touched: bool = result["touched"]
            return touched
        if isinstance(op, Search):
            return Found([Entry.of(item) for item in result["items"]], result["scanned"], result["cursor"])
        return Namespaces(result["namespaces"], result["scanned"], result["cursor"])
    except KeyError as error:
        raise ProtocolError(f"the result of {type(op).__name__} has no {error}") from error


def condition(if_tag: Optional[str]) -> JsonObject:
    """The member `ifTag`; none if the caller has left it out, since null has a meaning."""
    return {} if if_tag is UNSET else {"ifTag": if_tag}


def labels(ns: Sequence[str]) -> List[str]:
    if isinstance(ns, str):
        raise ConfigError(f"a namespace is a list of labels, and not the text {ns!r}: pass [{ns!r}]")
    return list(ns)


def _given(**members: Any) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}


__all__ = [
    "Delete", "Entry", "Found", "Get", "ListNamespaces", "Match", "Namespaces", "Op", "Put", "Result", "Search", "Touch",
    "Write",
]  # fmt: skip
