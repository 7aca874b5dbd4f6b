"""Item lists: ordered lists of JSON values that belong to a thread."""

from __future__ import annotations

from typing import Any, Generator, Iterable, List, Optional, Sequence

from .._calls import Call
from .._ids import new_id
from .._limits import ITEM_PAGE
from .._opening import UNSET
from .._records import AddedItems, ItemPage, ListItem, PoppedItems
from ..kv import Write, condition, to_wire
from .http import Http


class Items:
    """An item list of a thread, with a name. The first operation creates the list. Requires an API key with the scope `produce`.

    Operations are atomic and idempotent: each call has a key, so a retry takes effect once. Pass `key` if the caller may repeat the
    call itself, within 24 hours. A key with other content raises `ItemsConflict`. `if_tag` is the tag that the list must have, or
    None if the list must not exist; otherwise the call raises `ItemsChanged`.
    """

    def __init__(self, http: Http, thread_id: str, name: str) -> None:
        self.thread_id: str = thread_id
        self.name: str = name
        self._http = http
        self._path = ["threads", thread_id, "items", name]

    def append(
        self, items: Iterable[Any], *, if_tag: Optional[str] = UNSET, kv: Sequence[Write] = (), key: Optional[str] = None
    ) -> AddedItems:
        """Adds items at the end: JSON values of at most 8 MiB each, and 16 MiB together. All are stored, or none.

        `kv`: at most 100 writes of entries in the same commit; raises `KvChanged` if one of their conditions fails. Raises `TooLarge`
        beyond a limit of the list or the thread, and `StorageFull` beyond the quota.
        """
        return AddedItems.of(self._do("POST", [], key, if_tag, items=list(items), **_writes(kv)))

    def replace(
        self, items: Iterable[Any], *, if_tag: Optional[str] = UNSET, kv: Sequence[Write] = (), key: Optional[str] = None
    ) -> AddedItems:
        """Replaces all items; an empty list removes them. The limits and errors are those of `append`."""
        return AddedItems.of(self._do("PUT", [], key, if_tag, items=list(items), **_writes(kv)))

    def pop(self, count: int = 1, *, if_tag: Optional[str] = UNSET, key: Optional[str] = None) -> PoppedItems:
        """Removes up to `count` items from the end, at most 1,000, and returns them, oldest first."""
        return PoppedItems.of(self._do("POST", ["pop"], key, if_tag, count=count))

    def copy(
        self,
        from_thread_id: str,
        from_list: Optional[str] = None,
        *,
        upto: Optional[int] = None,
        if_tag: Optional[str] = UNSET,
        key: Optional[str] = None,
    ) -> AddedItems:
        """Adds the items of a list of another thread of the same user, up to the position `upto` (inclusive), by default all.

        `from_list` is by default the name of this list.
        """
        source: Any = {"fromThreadId": from_thread_id, "fromList": self.name if from_list is None else from_list}
        if upto is not None:
            source["uptoPos"] = upto
        return AddedItems.of(self._do("POST", ["copy"], key, if_tag, **source))

    def page(self, *, limit: Optional[int] = None, before: Optional[int] = None, after: Optional[int] = None) -> ItemPage:
        """A page of items, oldest first: the newest items, the last ones before a position, or the first ones after a position.

        A page has 100 items by default, and `limit` is at most 1,000.
        """
        query = {"limit": limit, "before": before, "after": after}
        return ItemPage.of(self._http.call(Call(self._path, query=query)))

    def read(self, limit: Optional[int] = None) -> ItemPage:
        """All items, or the newest ones, as a consistent snapshot. If the list changes during the read, it is read again."""
        while True:
            whole = self.page(limit=_page(limit))
            page = whole
            older: List[List[ListItem]] = [whole.items]
            count = len(whole.items)
            while page.has_more and page.items and page.tag == whole.tag and (limit is None or count < limit):
                page = self.page(limit=_page(None if limit is None else limit - count), before=page.items[0].pos)
                older.append(page.items)
                count += len(page.items)
            if page.tag == whole.tag:
                whole.items[:] = [item for items in reversed(older) for item in items]
                return whole

    def __iter__(self) -> Generator[ListItem, None, None]:
        """All items, oldest first, page by page. For a consistent snapshot, use `read`."""
        after = 0
        while True:
            page = self.page(limit=ITEM_PAGE, after=after)
            for item in page.items:
                yield item
            if not page.has_more or not page.items:
                return
            after = page.items[-1].pos

    def _do(self, method: str, path: Sequence[str], key: Optional[str], if_tag: Optional[str], **members: Any) -> Any:
        body = {"key": new_id() if key is None else key, **members, **condition(if_tag)}
        return self._http.call(Call([*self._path, *path], method, body=body))


def _writes(kv: Sequence[Write]) -> Any:
    return {"kv": [to_wire(write) for write in kv]} if kv else {}


def _page(limit: Optional[int]) -> int:
    return ITEM_PAGE if limit is None else min(limit, ITEM_PAGE)
