"""Events of AG-UI, of an agent that is called elsewhere."""

import re

from .items import JsonObject, failed, get, list_of, new_id, plain, text_of
from .mapper import RESERVED_NAMES, Mapper

_TYPE = re.compile(
    r"(RUN|TEXT_MESSAGE|TOOL_CALL|REASONING|THINKING|STATE|STEP|ACTIVITY|MESSAGES|SUBAGENT)(_[A-Z]+)+|RAW|CUSTOM"
)
#: Members of events that hold the producer's own values, in which ``null`` is no absent member.
_OPAQUE = ("snapshot", "value", "event", "rawEvent", "content", "result", "metadata", "delta", "patch")


class AgUiEvents(Mapper):
    """Passes events on. Text chunks without an id get one, since ids of messages belong to the thread."""

    def __init__(self) -> None:
        super().__init__()
        # Per subagent, or none: the message that a chunk without an id continues, with its role and its name.
        self._open: dict[str | None, tuple[str, str, str | None]] = {}

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
        return [self._named(_event(item))]

    def _named(self, event: JsonObject) -> JsonObject:
        lane = event.get("subagentRunId")
        if event["type"] == "MESSAGES_SNAPSHOT":
            self._open.clear()
        if event["type"] != "TEXT_MESSAGE_CHUNK":
            self._open.pop(lane, None)
            return event
        name, role, author = event.get("messageId"), event.get("role"), event.get("name")
        if isinstance(name, str):
            if all(name != message_id for message_id, _, _ in self._open.values()):
                self._open[lane] = (name, role or "assistant", author)
            return event
        known = self._open.get(lane)
        if known is None or role not in (None, known[1]) or author not in (None, known[2]):
            known = self._open[lane] = (new_id(), role or "assistant", author)
        return {**event, "messageId": known[0]}


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
