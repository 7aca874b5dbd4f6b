"""JSON Patch (RFC 6902), applied whole or not at all, by the rules and with the limits of the server.

Patches come from untrusted sources, so their work, and the size and the depth of what they build, are bounded.
"""

import re
from collections.abc import Callable

from .._limits import MAX_JSON_DEPTH, MAX_STATE_BYTES, PATCH_WORK
from .drafts import Drafts
from .values import MISSING, Malformed, Members, depth, equal, is_list, is_object, json, size, utf8_bytes

#: Segments of a pointer, after that of the document itself.
Path = list[str]
Branch = dict[str, object] | list[object]

_OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")
_NO_POINTER = re.compile(r"\A[^/]|~(?![01])")
_DIGITS = re.compile(r"[0-9]+")
#: Digits beyond which an index is after the end of every array.
_MAX_INDEX_DIGITS = 18
_DOCUMENT = "document"


class Purse:
    """The work budget for the patches of a conversation."""

    __slots__ = ("skipped", "work")

    def __init__(self) -> None:
        #: Remaining work beyond the patches' own length. One operation may overdraw it.
        self.work = PATCH_WORK
        #: Number of patches that could not be applied. Such a patch has no effect at all.
        self.skipped = 0


class Document:
    """A value that patches change, with its size, so that the cost of a patch does not depend on the size."""

    __slots__ = ("size", "value")

    def __init__(self, value: object, known: int | None = None) -> None:
        self.value = value
        self.size = size(value) if known is None else known


def patch(document: Document, operations: object, drafts: Drafts, purse: Purse, may_copy: int = MAX_STATE_BYTES) -> int | None:
    """Applies all operations, or none of them. Operations that RFC 6902 does not know are left out.

    Returns the number of copied bytes, of which there are at most ``may_copy``; ``None`` if the patch does not apply.
    """
    patcher = _Patcher(document, drafts, purse, may_copy)
    try:
        read = json(operations)
        if not is_list(read):
            raise Malformed
        for operation in read:
            patcher.operation(operation)
        return patcher.finish()
    except Malformed:
        patcher.undo()
        purse.skipped += 1
        return None


class _Patcher:
    __slots__ = (*("_added", "_copied", "_document", "_drafts", "_grown", "_holder", "_may_copy", "_purse", "_touched", "_undo"),)

    def __init__(self, document: Document, drafts: Drafts, purse: Purse, may_copy: int) -> None:
        self._document = document
        # The document is a member, so that its root is addressed as any other value.
        self._holder: Members = {_DOCUMENT: document.value}
        self._drafts = drafts
        self._purse = purse
        self._may_copy = may_copy
        # Growth of the document, and the amount of inserted data.
        self._grown = 0
        self._added = 0
        self._copied = 0
        self._undo: list[Callable[[], object]] = []
        # Objects that this patch has changed, by identity.
        self._touched: dict[int, object] = {}

    def finish(self) -> int:
        before = self._document.size
        now = max(0, before + self._grown)
        if now > MAX_STATE_BYTES and now > before:
            raise Malformed
        self._document.value, self._document.size = self._holder[_DOCUMENT], now
        return self._copied

    def undo(self) -> None:
        """Takes all changes back. Copies of what readers have seen stay: the next patch that fails makes none again."""
        for step in reversed(self._undo):
            step()
        self._document.value = self._holder[_DOCUMENT]

    def operation(self, operation: object) -> None:
        if not is_object(operation):
            raise Malformed
        op, value = operation.get("op"), operation.get("value", MISSING)
        if op not in _OPERATIONS:
            return
        path = _pointer(operation.get("path"))
        if op == "remove":
            if len(path) == 1:
                self._add_new(path, None)
            else:
                taken = self._take(path)
                self._grown -= size(taken)
        elif op == "move":
            self._move(_pointer(operation.get("from")), path)
        elif op == "copy":
            self._copy(_pointer(operation.get("from")), path)
        elif value is MISSING:
            raise Malformed
        elif op == "add":
            self._add_new(path, value)
        elif op == "test":
            if not equal(self._find(path), value):
                raise Malformed
        else:
            _check_depth(path, value)
            self._find(path)
            self._put(path, value, size(value))

    def _move(self, source: Path, path: Path) -> None:
        value = self._find(source)
        if source == path:
            return
        self._take(source)
        if len(path) > len(source):
            self._check_purse()
            _check_depth(path, value)
            self._purse.work -= size(value)
        self._add(path, value, 0, lax=True)

    def _copy(self, source: Path, path: Path) -> None:
        self._check_purse()
        value = self._find(source)
        copied = size(value)
        self._purse.work -= copied
        self._copied += copied
        if self._copied > self._may_copy or self._document.size + self._added + copied > 2 * MAX_STATE_BYTES:
            raise Malformed
        self._drafts.share(value)
        self._add_new(path, value, lax=True)

    def _add_new(self, path: Path, value: object, lax: bool = False) -> None:
        _check_depth(path, value)
        self._add(path, value, size(value), lax)

    def _add(self, path: Path, value: object, added: int, lax: bool) -> None:
        """Adds a value. With ``lax``, as in copies and moves, an index after the end of an array means its end."""
        parent, last = self._parent(path)
        if is_object(parent):
            return self._put(path, value, added + (0 if last in parent else utf8_bytes(last) + 3))
        assert is_list(parent)
        end = len(parent)
        at = end if last == "-" else 0 if last == "" else _number(last)
        if at is not None and lax:
            at = min(at, end)
        if at is None or at > end or (at < end and self._purse.work <= 0):
            raise Malformed
        self._purse.work -= end - at
        self._count(added)
        place = at
        self._undo.append(lambda: parent.pop(place))
        parent.insert(at, value)

    def _put(self, path: Path, value: object, added: int) -> None:
        """Sets a value, which may replace another one."""
        parent, last = self._parent(path)
        old = _member(parent, last)
        if old is not MISSING:
            self._grown -= size(old)
        self._count(added)
        self._set(parent, last, value)

    def _count(self, added: int) -> None:
        self._added += added
        self._grown += added

    def _take(self, path: Path) -> object:
        """Removes a value from its parent."""
        value = self._find(path)
        if len(path) == 1:
            raise Malformed
        parent, last = self._parent(path)
        if is_list(parent):
            at = int(last)
            shifted = len(parent) - at - 1
            if shifted > 0:
                self._check_purse()
            self._purse.work -= shifted
            self._undo.append(lambda: parent.insert(at, value))
            parent.pop(at)
        elif is_object(parent):
            self._grown -= utf8_bytes(last) + 3
            self._undo.append(lambda: parent.__setitem__(last, value))
            del parent[last]
        return value

    def _find(self, path: Path) -> object:
        value: object = self._holder
        for token in path:
            value = _child(value, token)
        return value

    def _parent(self, path: Path) -> tuple[Branch, str]:
        """The parent array or object of a path, for writing, and the last segment of the path."""
        parent: Branch = self._holder
        for token in path[:-1]:
            below = _child(parent, token)
            draft: Branch
            if is_object(below):
                draft = self._drafts.of(below)
            elif is_list(below):
                draft = self._drafts.of(below)
            else:
                raise Malformed
            if id(below) in self._touched and draft is not below:
                # A value that was copied by an operation is copied again: changes before that are undone on the former object.
                self._set(parent, token, draft)
            else:
                _replace(parent, token, draft)
            self._touched[id(draft)] = draft
            parent = draft
        return parent, path[-1]

    def _set(self, parent: Branch, token: str, value: object) -> None:
        old = _member(parent, token)
        if is_list(parent):
            self._undo.append(lambda: _replace(parent, token, old))
        elif is_object(parent):
            self._undo.append(lambda: parent.pop(token) if old is MISSING else _replace(parent, token, old))
        _replace(parent, token, value)

    def _check_purse(self) -> None:
        if self._purse.work <= 0:
            raise Malformed


def _number(token: str) -> int | None:
    """The number that a token writes, perhaps with leading zeros. A long one is not read: it is after the end of any array."""
    if _DIGITS.fullmatch(token) is None:
        return None
    digits = token.lstrip("0")
    return int(digits or "0") if len(digits) <= _MAX_INDEX_DIGITS else 10**_MAX_INDEX_DIGITS


def _index(values: list[object], token: str) -> int | None:
    """The index of an element that there is; a token with leading zeros names none."""
    at = _number(token) if token == "0" or not token.startswith("0") else None
    return at if at is not None and at < len(values) else None


def _member(parent: Branch, token: str) -> object:
    if is_object(parent):
        return parent.get(token, MISSING)
    at = _index(parent, token) if is_list(parent) else None
    return MISSING if at is None else parent[at] if is_list(parent) else MISSING


def _replace(parent: Branch, token: str, value: object) -> None:
    if is_list(parent):
        parent[int(token)] = value
    elif is_object(parent):
        parent[token] = value


def _child(value: object, token: str) -> object:
    found = _member(value, token) if is_object(value) or is_list(value) else MISSING
    if found is MISSING:
        raise Malformed
    return found


def _check_depth(path: Path, value: object) -> None:
    """Limits the depth of a document to that of an event."""
    if len(path) - 1 + depth(value) >= MAX_JSON_DEPTH:
        raise Malformed


def _pointer(text: object) -> Path:
    """The segments of a pointer. Names that would access a prototype in JavaScript are refused, as clients there do."""
    if not isinstance(text, str) or _NO_POINTER.search(text):
        raise Malformed
    tokens = text.split("/")[1:]
    if len(tokens) > MAX_JSON_DEPTH:
        raise Malformed
    path = [_DOCUMENT, *(token.replace("~1", "/").replace("~0", "~") for token in tokens)]
    for at, token in enumerate(path[1:]):
        if token == "__proto__" or (token == "prototype" and at > 0 and path[at] == "constructor"):
            raise Malformed
    return path
