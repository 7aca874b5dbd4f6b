"""JSON values as the fold reads and compares them."""

import re
from collections.abc import Callable
from typing import Final, TypeGuard, TypeVar

T = TypeVar("T")

#: A JSON object.
Members = dict[str, object]

#: Stands for a member that is absent, which differs from ``null``.
MISSING: Final = object()

#: A lone surrogate, which UTF-8 cannot hold.
LONE_HALF = re.compile("[\ud800-\udfff]")


class Malformed(Exception):
    """A member has a form that the protocol does not allow: the event is ignored."""


def is_object(value: object) -> TypeGuard[Members]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def is_number(value: object) -> TypeGuard[int | float]:
    # A bool is an int in Python, and no number in JSON.
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def required(value: object) -> str:
    """A string. A text may be cut inside a surrogate pair, and be completed by the next delta."""
    if not isinstance(value, str):
        raise Malformed
    return value


def word(value: object) -> str:
    """An id, a name or a role: lone surrogates become U+FFFD, as on the server."""
    text = required(value)
    return text if text.isascii() else LONE_HALF.sub("\ufffd", text)


def optional_word(value: object) -> str | None:
    """An id, a name or a role that may be absent, but not ``null``."""
    return None if value is MISSING else word(value)


def joined(text: str, more: str) -> str:
    """Two texts as one. The halves of a surrogate pair that meet become the character, which Python does not do by itself."""
    if text and more and "\ud800" <= text[-1] <= "\udbff" and "\udc00" <= more[0] <= "\udfff":
        point = 0x1_0000 + ((ord(text[-1]) - 0xD800) << 10) + (ord(more[0]) - 0xDC00)
        return text[:-1] + chr(point) + more[1:]
    return text + more


def is_beyond_double(value: object) -> bool:
    """True for a number that a double cannot hold, such as ``1e400``."""
    if isinstance(value, float):
        return value - value != 0.0
    if isinstance(value, int) and value.bit_length() > 1_023:
        try:
            float(value)
        except OverflowError:
            return True
    return False


def json(value: object) -> object:
    """A value as the server reads it: lone surrogates become U+FFFD, and a number beyond a double becomes ``None``.

    Integers stay exact, however large. Returns the same object if nothing is to be changed.
    """
    if isinstance(value, str):
        return word(value)
    if is_object(value):
        members = {word(name): json(member) for name, member in value.items()}
        same = all(name in value and value[name] is member for name, member in members.items())
        return value if same and len(members) == len(value) else members
    if is_list(value):
        items = [json(item) for item in value]
        return value if all(item is old for item, old in zip(items, value, strict=True)) else items
    return None if is_beyond_double(value) else value


def beyond_doubles(value: object) -> int:
    """Number of numbers in a value that are beyond a double."""
    if is_object(value):
        return sum(map(beyond_doubles, value.values()))
    if is_list(value):
        return sum(map(beyond_doubles, value))
    return 1 if is_beyond_double(value) else 0


def attempt(read: Callable[[object], T], value: object) -> T | None:
    """The result of the function; ``None`` if it finds the value malformed."""
    try:
        return read(value)
    except Malformed:
        return None


def _all_equal(one: object, other: object, numbers: Callable[[int | float, int | float], bool]) -> bool:
    if one is other:
        return True
    if is_object(one):
        return (
            is_object(other)
            and len(one) == len(other)
            and all(name in other and _all_equal(member, other[name], numbers) for name, member in one.items())
        )
    if is_list(one):
        return is_list(other) and len(one) == len(other) and all(_all_equal(*pair, numbers) for pair in zip(one, other, strict=True))
    if is_number(one):
        return is_number(other) and numbers(one, other)
    # Without the types, True would equal 1.
    return type(one) is type(other) and one == other


def same(one: object, other: object) -> bool:
    """True if two values are the same JSON: 1 equals 1.0, and integers beyond a double are told apart."""
    return _all_equal(one, other, lambda number, another: number == another)


def equal(one: object, other: object) -> bool:
    """True if two values are equal for a ``test`` of a patch, which compares numbers as doubles. Numbers must be within them."""
    return _all_equal(one, other, lambda number, another: float(number) == float(another))


def utf8_bytes(text: str) -> int:
    """Length of a text in UTF-8, in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def size(value: object) -> int:
    """Approximate size of a value as JSON text, in bytes."""
    if isinstance(value, str):
        return utf8_bytes(value) + 3
    if is_object(value):
        return 3 + sum(utf8_bytes(name) + 3 + size(member) for name, member in value.items())
    if is_list(value):
        return 3 + sum(map(size, value))
    return 5


def depth(value: object) -> int:
    """Deepest nesting of arrays and objects; 0 for any other value."""
    if is_object(value):
        return 1 + max(map(depth, value.values()), default=0)
    if is_list(value):
        return 1 + max(map(depth, value), default=0)
    return 0
