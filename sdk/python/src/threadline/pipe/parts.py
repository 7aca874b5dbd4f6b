"""Texts, reasoning and calls of one stream, by the keys that the stream has for them."""

from dataclasses import dataclass
from typing import Literal

from .._ids import new_id
from .._json import JsonObject
from .items import result_text

Kind = Literal["TEXT", "REASONING"]


@dataclass
class _Call:
    has_args: bool = False
    is_open: bool = True
    has_result: bool = False


class StreamParts:
    """The open parts of a stream."""

    def __init__(self) -> None:
        self._texts: dict[tuple[Kind, str], str] = {}
        self._calls: dict[str, _Call] = {}
        #: The message that calls belong to.
        self.parent: str | None = None

    def begin(self, kind: Kind, key: str, message_id: str | None = None) -> list[JsonObject]:
        """Begins a text, unless it is open."""
        if (kind, key) in self._texts:
            return []
        message_id = message_id or new_id()
        self._texts[kind, key] = message_id
        if kind == "TEXT":
            self.parent = message_id
            return [{"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"}]
        begins = {"type": "REASONING_MESSAGE_START", "messageId": message_id, "role": "reasoning"}
        return [{"type": "REASONING_START", "messageId": message_id}, begins]

    def delta(self, kind: Kind, key: str, delta: str, message_id: str | None = None) -> list[JsonObject]:
        """Appends to a text, which begins with its first piece at the latest."""
        # A piece of AG-UI's is not empty.
        if delta == "":
            return []
        begins = self.begin(kind, key, message_id)
        content = {"type": f"{kind}_MESSAGE_CONTENT", "messageId": self._texts[kind, key], "delta": delta}
        return [*begins, content]

    def end(self, kind: Kind, key: str) -> list[JsonObject]:
        message_id = self._texts.pop((kind, key), None)
        if message_id is None:
            return []
        end = {"type": f"{kind}_MESSAGE_END", "messageId": message_id}
        return [end] if kind == "TEXT" else [end, {"type": "REASONING_END", "messageId": message_id}]

    def is_open(self, kind: Kind, key: str) -> bool:
        return (kind, key) in self._texts

    def end_all(self, kind: Kind) -> list[JsonObject]:
        """Ends all texts of a kind."""
        keys = [key for of, key in self._texts if of == kind]
        return [event for key in keys for event in self.end(kind, key)]

    def has_call(self, call_id: str) -> bool:
        return call_id in self._calls

    def call(self, call_id: str, name: str, parent: str | None = None) -> list[JsonObject]:
        """Begins a call, whose id is that of the stream: whoever carries it out knows it by this id."""
        if call_id in self._calls:
            return []
        self._calls[call_id] = _Call()
        start = {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": name}
        parent = parent or self.parent
        return [start if parent is None else {**start, "parentMessageId": parent}]

    def args(self, call_id: str, delta: str) -> list[JsonObject]:
        call = self._calls.get(call_id)
        if call is None or not call.is_open or delta == "":
            return []
        call.has_args = True
        return [{"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": delta}]

    def end_call(self, call_id: str, whole: str = "") -> list[JsonObject]:
        """Ends the arguments of a call. ``whole`` is their JSON text, of which nothing or all was passed before."""
        call = self._calls.get(call_id)
        if call is None or not call.is_open:
            return []
        args = [] if call.has_args else self.args(call_id, whole)
        call.is_open = False
        return [*args, {"type": "TOOL_CALL_END", "toolCallId": call_id}]

    def result(self, call_id: str, output: object, message_id: str | None = None) -> list[JsonObject]:
        """The result of a call, which has one at most."""
        call = self._calls.setdefault(call_id, _Call(is_open=False))
        if call.has_result:
            return []
        call.has_result = True
        result = {"type": "TOOL_CALL_RESULT", "messageId": message_id or new_id(), "toolCallId": call_id, "role": "tool"}
        return [*self.end_call(call_id), {**result, "content": result_text(output)}]

    def failure(self, call_id: str, error: str) -> list[JsonObject]:
        """The result of a call that has failed: AG-UI has no mark for it."""
        return self.result(call_id, {"error": error})

    def last(self) -> list[JsonObject]:
        """Ends all that is open."""
        calls = [event for call_id in list(self._calls) for event in self.end_call(call_id)]
        return [*self.end_all("REASONING"), *self.end_all("TEXT"), *calls]


class Steps:
    """Steps of a stream by their names. Steps of one name that run at the same time are one."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def begin(self, name: str) -> list[JsonObject]:
        self._open[name] = self._open.get(name, 0) + 1
        return [{"type": "STEP_STARTED", "stepName": name}] if self._open[name] == 1 else []

    def end(self, name: str) -> list[JsonObject]:
        count = self._open.get(name, 0)
        if count == 0:
            return []
        if count > 1:
            self._open[name] = count - 1
            return []
        del self._open[name]
        return [{"type": "STEP_FINISHED", "stepName": name}]

    def is_open(self, name: str) -> bool:
        return name in self._open

    def last(self) -> list[JsonObject]:
        names = list(self._open)
        self._open.clear()
        return [{"type": "STEP_FINISHED", "stepName": name} for name in reversed(names)]
