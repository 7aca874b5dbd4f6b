"""Copies on write, so that what a reader has seen never changes."""

from typing import TypeVar

from .._limits import MAX_DRAFTS
from .values import is_list, is_object

T = TypeVar("T", dict[str, object], list[object])


class Drafts:
    """Objects that no reader has seen yet, and that are referenced only once, so that they may be changed in place.

    All other objects are copied before a change. A series of small changes does not copy a large object repeatedly.
    """

    __slots__ = ("_own",)

    def __init__(self) -> None:
        # By identity, since dicts and lists have no hash. The values keep the identities from being used again.
        self._own: dict[int, object] = {}

    def of(self, value: T) -> T:
        """The value itself if it may be changed, else a copy that may."""
        if id(value) in self._own:
            return value
        if len(self._own) >= MAX_DRAFTS:
            self._own.clear()
        copy = value.copy()
        self._own[id(copy)] = copy
        return copy

    def share(self, value: object) -> None:
        """Marks a value that will be referenced twice. An immutable value contains no mutable one."""
        if self._own.pop(id(value), None) is None:
            return
        if is_object(value):
            for member in value.values():
                self.share(member)
        elif is_list(value):
            for item in value:
                self.share(item)

    def seal(self) -> None:
        """Makes all drafts immutable, since readers have seen them."""
        self._own.clear()
