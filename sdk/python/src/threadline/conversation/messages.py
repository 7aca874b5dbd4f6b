"""The messages in order, and the texts that deltas append to them."""

from collections.abc import Iterable, Sequence

from .drafts import Drafts
from .values import Members, is_list, is_object, joined


class Text:
    """A text to which deltas append, in time that does not depend on its length."""

    __slots__ = ("_parts",)

    def __init__(self, text: str) -> None:
        self._parts = [text]

    def append(self, delta: str) -> None:
        last = self._parts[-1]
        # Halves of a surrogate pair may meet at the seam.
        if last and "\ud800" <= last[-1] <= "\udbff":
            self._parts[-1] = joined(last, delta)
        elif delta:
            self._parts.append(delta)

    def whole(self) -> str:
        return "".join(self._parts)


class Place:
    """The position of a message."""

    __slots__ = ("arguments", "content", "index", "is_listed", "measured", "message", "results")

    def __init__(self, message: Members, index: int) -> None:
        self.message = message
        #: The last known index. Messages are inserted and never removed, so the index can only have increased.
        self.index = index
        #: Content and arguments of calls (by their indices) that have grown since the message was last brought up to date.
        self.content: Text | None = None
        self.arguments: dict[int, Text] = {}
        #: True if the list of such places has this one.
        self.is_listed = False
        #: The last of the following tool messages, as far as known, and the list's generation at that time.
        self.results: tuple[int, Place] | None = None
        #: Content of an activity, and its size.
        self.measured: tuple[object, int] | None = None


#: A tool call: its message and its index there.
Called = tuple[Place, int]


class MessageList:
    """The messages in order, indexed by their ids and by those of their tool calls.

    Ids should be unique but need not be: the first message with an id counts.
    """

    __slots__ = ("_by_id", "_calls", "_drafts", "_generation", "_grown", "_is_changed", "_pending", "_places", "_read")

    def __init__(self, messages: Iterable[Members], drafts: Drafts, before: list[Members] | None = None) -> None:
        """Creates a list; ``before`` is what readers have of the list that it replaces."""
        self._places: list[Place] = []
        self._by_id: dict[str, Place] = {}
        # All calls with an id, in order. Calls of replaced messages may still be among them.
        self._calls: dict[str, list[Called]] = {}
        # Number of changes that may end a row of tool messages.
        self._generation = 0
        self._drafts = drafts
        self._grown: list[Place] = []
        self._read: list[Members] = before if before is not None else []
        self._is_changed = True
        self._pending: list[str] | None = None
        for message in messages:
            self.push(message)

    def read(self) -> list[Members]:
        """The messages. The same list is returned until a message changes."""
        if self._is_changed:
            self._bring_up_to_date()
            messages = [place.message for place in self._places]
            old = self._read
            if len(messages) != len(old) or any(message is not before for message, before in zip(messages, old, strict=True)):
                self._read = messages
            self._is_changed = False
            self._drafts.seal()
        return self._read

    def pending_calls(self) -> Sequence[str]:
        """Ids of the tool calls without a result, in the order of the messages."""
        if self._pending is None:
            messages = [place.message for place in self._places]
            answered = {
                message["toolCallId"] for message in messages if message["role"] == "tool" and isinstance(message.get("toolCallId"), str)
            }
            calls = (id_of(call) for message in messages for call in calls_of(message))
            self._pending = [call for call in calls if call not in answered]
        return self._pending

    def find(self, message_id: str) -> Place | None:
        return self._by_id.get(message_id)

    def find_call(self, call_id: str) -> Called | None:
        called = self._calls.get(call_id, [])
        while called and not _is_call(called[0], call_id):
            called.pop(0)
        return called[0] if called else None

    def edit(self, place: Place) -> Members:
        """The message, for a change of anything but its id, its role and the identity of its calls."""
        self._is_changed = True
        place.message = self._drafts.of(place.message)
        return place.message

    def edit_call(self, called: Called) -> Members:
        """A call, for a change of anything but its id."""
        place, at = called
        calls = self._edit_calls(place)
        call = calls[at]
        assert is_object(call)
        calls[at] = call = self._drafts.of(call)
        function = call["function"]
        assert is_object(function)
        call["function"] = self._drafts.of(function)
        return call

    def append_content(self, place: Place, delta: str) -> None:
        """Appends to the text of a message. A content that is not a text is replaced by the text."""
        if place.content is None:
            content = place.message.get("content")
            place.content = Text(content if isinstance(content, str) else "")
            self._note_grown(place)
        place.content.append(delta)

    def append_arguments(self, called: Called, delta: str) -> None:
        place, at = called
        text = place.arguments.get(at)
        if text is None:
            text = place.arguments[at] = Text(arguments_of(calls_of(place.message)[at]))
            self._note_grown(place)
        text.append(delta)

    def push(self, message: Members) -> Place:
        return self._insert(message, len(self._places))

    def push_result(self, owner: Place, message: Members) -> None:
        """Inserts a message after ``owner`` and the tool messages that follow it."""
        results = owner.results
        known = results[1] if results is not None and results[0] == self._generation else owner
        places = self._places
        at = self._index_of(known) + 1
        while at < len(places) and places[at].message["role"] == "tool":
            at += 1
        owner.results = (self._generation, self._insert(message, at))

    def push_call(self, place: Place, call: Members) -> None:
        """Adds a call to a message."""
        calls = self._edit_calls(place)
        calls.append(call)
        self._index_call(id_of(call), (place, len(calls) - 1))

    def replace(self, place: Place, message: Members) -> None:
        """Replaces a message with another one that has the same id and no calls."""
        if place.message["role"] == "tool":
            self._generation += 1
        place.message = message
        place.content = None
        place.arguments = {}
        self._is_changed = True
        self._pending = None

    def _note_grown(self, place: Place) -> None:
        self._is_changed = True
        if not place.is_listed:
            place.is_listed = True
            self._grown.append(place)

    def _bring_up_to_date(self) -> None:
        for place in self._grown:
            place.is_listed = False
            if place.content is not None:
                self.edit(place)["content"] = place.content.whole()
                place.content = None
            for at, text in place.arguments.items():
                function = self.edit_call((place, at))["function"]
                assert is_object(function)
                function["arguments"] = text.whole()
            place.arguments = {}
        self._grown = []

    def _edit_calls(self, place: Place) -> list[object]:
        message = self.edit(place)
        calls = message.get("toolCalls")
        draft = self._drafts.of(calls if is_list(calls) else [])
        message["toolCalls"] = draft
        return draft

    def _index_of(self, place: Place) -> int:
        while self._places[place.index] is not place:
            place.index += 1
        return place.index

    def _insert(self, message: Members, index: int) -> Place:
        place = Place(message, index)
        self._places.insert(index, place)
        message_id = id_of(message)
        first = self._by_id.get(message_id)
        if first is None or self._index_of(first) > index:
            self._by_id[message_id] = place
        self._is_changed = True
        self._pending = None
        for at, call in enumerate(calls_of(message)):
            self._index_call(id_of(call), (place, at))
        return place

    def _index_call(self, call_id: str, called: Called) -> None:
        self._pending = None
        self._calls.setdefault(call_id, []).append(called)


def id_of(value: object) -> str:
    """Id of a message or a call that has one."""
    found = value.get("id") if is_object(value) else None
    return found if isinstance(found, str) else ""


def calls_of(message: Members) -> Sequence[object]:
    """The calls of an assistant message. In other roles the member has no defined meaning."""
    calls = message.get("toolCalls") if message["role"] == "assistant" else None
    return calls if is_list(calls) else ()


def arguments_of(call: object) -> str:
    function = call.get("function") if is_object(call) else None
    found = function.get("arguments") if is_object(function) else None
    return found if isinstance(found, str) else ""


def _is_call(called: Called, call_id: str) -> bool:
    place, at = called
    calls = calls_of(place.message)
    return at < len(calls) and id_of(calls[at]) == call_id
