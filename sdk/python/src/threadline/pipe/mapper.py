"""The mapping of one stream to AG-UI's events."""

from abc import ABC, abstractmethod

from .._json import JsonObject
from .errors import StreamFailed
from .items import custom, get, text_of


class Mapper(ABC):
    """Maps the items of one stream, which are passed in order, to events.

    Texts and reasoning get ids of messages that are new in the thread; calls keep the ids of their stream, by which they are
    carried out. Events of the run itself (RUN_STARTED, RUN_FINISHED, RUN_ERROR) are the producer's, and never among these.
    """

    def __init__(self) -> None:
        #: Questions of the stream, as AG-UI's interrupts: they end the run after the stream.
        self.interrupts: list[JsonObject] = []
        self._unmapped: set[str] = set()

    def feed(self, item: object) -> list[JsonObject]:
        """The events of an item. Raises :class:`StreamFailed` if the item is an error of the stream.

        An item that is not known, of a later version perhaps, becomes a CUSTOM event ``unmapped``, once per type.
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
        """The events at the end of the stream: they end what it has left open."""

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
