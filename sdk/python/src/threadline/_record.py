"""The base of records. It reads and compares by a table, which costs less at import than a dataclass for each record."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, NoReturn, Optional, Tuple, Type, TypeVar

from ._json import JsonObject

R = TypeVar("R", bound="Record")


class Record:
    """A record of the server. It does not change."""

    members: ClassVar[Tuple[Tuple[str, str, Optional[Callable[[JsonObject], Any]]], ...]] = ()
    """Names on the wire and of the members here, and how a member that is a record, or a list of records, is read."""

    extra: JsonObject
    """Members that this version of the package does not know."""

    @classmethod
    def of(cls: Type[R], document: JsonObject) -> R:
        """Reads a record. A member that is missing is None."""
        rest = dict(document)
        record = cls.__new__(cls)
        values = record.__dict__
        for name, member, read in cls.members:
            value = rest.pop(name, None)
            values[member] = value if read is None or value is None else _each(value, read)
        values["extra"] = rest
        return record

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is a record of the server, and does not change")


def _each(value: Any, read: Callable[[JsonObject], Any]) -> Any:
    return [read(one) for one in value] if isinstance(value, list) else read(value)
