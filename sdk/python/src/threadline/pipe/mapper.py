"""The mapping of one stream to AG-UI's events."""

from abc import ABC, abstractmethod

from .._json import JsonObject
from .errors import StreamFailed
from .items import custom, get, text_of


class Mapper(ABC):
    """Maps the items of one stream to AG-UI events. Pass the items in order.

    Texts and reasoning get message ids that are new in the thread; tool calls keep the ids of their stream, to which results refer.
    RUN_STARTED, RUN_FINISHED and RUN_ERROR are left out, because the producer of the run writes its own.
    """

    def __init__(self) -> None:
        self.interrupts: list[JsonObject] = []
        """Questions of the stream, as AG-UI's interrupts: they end the run after the stream."""
        self._unmapped: set[str] = set()

    def feed(self, item: object) -> list[JsonObject]:
        """The events of an item. Raises :class:`StreamFailed` if the item is an error of the stream.

        An item of an unknown type, for example of a newer version, becomes a CUSTOM event ``unmapped``: one event for each type.
        """
        try:
            events = self._events(item)
        except StreamFailed:
            raise
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
            # A shape that the mapping did not expect.
            events = None
        return self._unknown(_type_of(item), item) if events is None else events

    @abstractmethod
    def end(self) -> list[JsonObject]:
        """The events at the end of the stream. They end the messages and calls that the stream has left open."""

    @abstractmethod
    def _events(self, item: object) -> list[JsonObject] | None:
        """The events of an item; ``None`` if the item is not known."""

    def _unknown(self, kind: str, item: object) -> list[JsonObject]:
        if kind in self._unmapped:
            return []
        self._unmapped.add(kind)
        return [custom("unmapped", item)]

    def _ask(self, interrupt: JsonObject) -> None:
        """Adds a question, unless it was asked before."""
        if all(asked["id"] != interrupt["id"] for asked in self.interrupts):
            self.interrupts.append(interrupt)


def _type_of(item: object) -> str:
    kind = next((kind for kind in (get(item, "type"), get(item, "event_kind")) if isinstance(kind, str)), "")
    return f"{kind or type(item).__name__} {text_of(get(item, 'name'))}"
