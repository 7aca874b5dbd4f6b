"""Items of streams: dicts, and objects of packages, of versions that may be later than any known one."""

import base64
import dataclasses
import datetime
import enum
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from .._json import JsonObject
from .._limits import MAX_KEPT_CHARS, MAX_KEPT_DEPTH, MAX_KEPT_VALUES, MAX_VALUES
from .errors import StreamFailed


def get(item: object, name: str) -> Any:
    """A member of a dict, or an attribute of any other object; ``None`` if there is none."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def has(item: object, name: str) -> bool:
    return name in item if isinstance(item, Mapping) else hasattr(item, name)


def text_of(value: object) -> str:
    """A string; empty for any other value."""
    return value if isinstance(value, str) else ""


def key_of(value: object) -> str:
    """An id of a stream, which may be a number."""
    is_key = isinstance(value, (str, int)) and not isinstance(value, bool)
    return str(value) if is_key else ""


def list_of(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def custom(name: str, value: object) -> JsonObject:
    return {"type": "CUSTOM", "name": name, "value": kept(value)}


def kept(value: object) -> Any:
    """A value in a form that an event can have. Of a value that is too large, only the type is kept."""
    read = _Plain(MAX_KEPT_VALUES, cuts=True).of(value, 0)
    if len(json.dumps(read)) <= MAX_KEPT_CHARS:
        return read
    named = {"type": read["type"]} if isinstance(read, dict) and isinstance(read.get("type"), str) else {}
    return {**named, "truncated": True}


def json_text(value: object) -> str:
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))


def result_text(value: object) -> str:
    """The result of a call: a string as it is, any other value as JSON text."""
    return value if isinstance(value, str) else json_text(value)


def failed(error: object) -> StreamFailed:
    """The failure that an item of a stream describes: an exception, an object with a message, or a text."""
    message = str(error) if isinstance(error, Exception) else text_of(get(error, "message")) or text_of(error)
    failure = StreamFailed(message or f"the stream has failed: {json_text(kept(error))}")
    failure.__cause__ = error if isinstance(error, Exception) else None
    return failure


def plain(value: object) -> Any:
    """The JSON of a value: of models, dataclasses and dates, too. Anything else is described by a text.

    Raises ``ValueError`` if the value has too many parts or levels: objects of packages may refer to one another.
    """
    return _Plain(MAX_VALUES, cuts=False).of(value, 0)


class _Plain:
    def __init__(self, most: int, *, cuts: bool) -> None:
        self._left = most
        # True: values beyond the limits are replaced by their type.
        self._cuts = cuts

    def of(self, value: object, depth: int) -> Any:
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, enum.Enum):
            return self.of(value.value, depth)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if isinstance(value, (bytes, bytearray)):
            return base64.b64encode(value).decode("ascii")
        if isinstance(value, (datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, uuid.UUID):
            return str(value)
        self._left -= 1
        if depth >= MAX_KEPT_DEPTH or self._left < 0:
            if not self._cuts:
                raise ValueError(f"the value has more than {MAX_VALUES} parts or {MAX_KEPT_DEPTH} levels")
            return _described(value)
        if isinstance(value, Mapping):
            return {str(name): self.of(member, depth + 1) for name, member in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.of(item, depth + 1) for item in value]
        return self._of_object(value, depth)

    def _of_object(self, value: object, depth: int) -> Any:
        if isinstance(value, type):
            return _described(value)
        dump = getattr(value, "model_dump", None)
        if callable(dump):
            return self.of(dump(), depth)
        if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
            return {name: self.of(getattr(value, name, None), depth + 1) for name in names}
        return _described(value)


def _described(value: object) -> str:
    # The text of an object may be that of all objects which it refers to.
    return f"<{type(value).__name__}>"
