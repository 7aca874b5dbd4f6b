"""Events of AG-UI, of an agent that is called elsewhere."""

import re

from .._ids import RESERVED_NAMES, new_id
from .._json import JsonObject
from .._message_ids import MessageIds
from .items import failed, get, list_of, plain, text_of
from .mapper import Mapper

_TYPE = re.compile(r"(RUN|TEXT_MESSAGE|TOOL_CALL|REASONING|THINKING|STATE|STEP|ACTIVITY|MESSAGES|SUBAGENT)(_[A-Z]+)+|RAW|CUSTOM")
#: Members of events that hold the producer's own values, in which ``null`` is no absent member.
_OPAQUE = ("snapshot", "value", "event", "rawEvent", "content", "result", "metadata", "delta", "patch")


class AgUiEvents(Mapper):
    """Passes events on. Text chunks without an id get one, since ids of messages belong to the thread."""

    def __init__(self) -> None:
        super().__init__()
        self._ids = MessageIds(new_id(), explicit=True)
        self._count = 0

    @staticmethod
    def knows(item: object) -> bool:
        return _TYPE.fullmatch(_type_of(item)) is not None

    def end(self) -> list[JsonObject]:
        return []

    def _events(self, item: object) -> list[JsonObject] | None:
        kind = _type_of(item)
        if kind == "RUN_ERROR":
            raise failed(item)
        if kind == "RUN_FINISHED":
            for interrupt in list_of(get(get(item, "outcome"), "interrupts")):
                self._ask(_event(interrupt))
        # Beginning and end of the run are this producer's.
        if kind.startswith("RUN_"):
            return []
        if not _TYPE.fullmatch(kind) or text_of(get(item, "name")).startswith(RESERVED_NAMES):
            return None
        self._count += 1
        return [self._ids.given(_event(item), self._count)]


def _type_of(item: object) -> str:
    kind = get(item, "type")
    # The package of AG-UI for Python has an enum of types.
    return text_of(getattr(kind, "value", kind))


def _event(item: object) -> JsonObject:
    """An event as JSON: a dict as it is, a model by its aliases. Members of a model that are None are absent."""
    dump = getattr(item, "model_dump", None)
    if not callable(dump):
        read = plain(item)
        if not isinstance(read, dict):
            raise TypeError("an event is an object")
        return read
    whole = plain(dump(mode="json", by_alias=True))
    members = plain(dump(mode="json", by_alias=True, exclude_none=True))
    return {name: whole[name] if name in _OPAQUE else member for name, member in members.items()}
