"""Chunks of OpenAI's chat completions, and of the many endpoints that speak like it."""

from typing import NamedTuple

from .._ids import new_id
from .._json import JsonObject
from .items import failed, get, list_of, text_of
from .mapper import Mapper
from .parts import StreamParts


class _Call(NamedTuple):
    key: str
    #: Index that identifies the call within the answer, if the endpoint sends one.
    place: object
    id: str


class ChatChunks(Mapper):
    def __init__(self) -> None:
        super().__init__()
        self._parts = StreamParts()
        self._calls: list[_Call] = []

    @staticmethod
    def knows(item: object) -> bool:
        # An endpoint may answer with an error in place of chunks.
        is_error = isinstance(item, dict) and not isinstance(item.get("type"), str) and isinstance(item.get("error"), dict)
        return isinstance(get(item, "choices"), list) or get(item, "object") == "chat.completion.chunk" or is_error

    def end(self) -> list[JsonObject]:
        return self._parts.last()

    def _events(self, item: object) -> list[JsonObject] | None:
        choices, error = get(item, "choices"), get(item, "error")
        if error is not None:
            raise failed(error)
        if not isinstance(choices, list):
            return None
        # Several choices would be several answers to one question.
        choice = next((choice for choice in choices if (get(choice, "index") or 0) == 0), None)
        if choice is None:
            return []
        delta, reason = get(choice, "delta"), get(choice, "finish_reason")
        said = [] if delta is None else self._delta(delta)
        if reason == "error":
            raise failed(get(choice, "error") or choice)
        return [*said, *self._parts.last()] if reason else said

    def _delta(self, delta: object) -> list[JsonObject]:
        parts = self._parts
        # Extensions of DeepSeek, vLLM and OpenRouter.
        thought = text_of(get(delta, "reasoning_content")) or text_of(get(delta, "reasoning"))
        text = text_of(get(delta, "content")) or text_of(get(delta, "refusal"))
        # Reasoning models of Mistral send a list of parts.
        for part in list_of(get(delta, "content")):
            text += text_of(get(part, "text"))
            thought += "".join(text_of(get(piece, "text")) for piece in list_of(get(part, "thinking")))
        events = parts.delta("REASONING", "", thought)
        if text:
            events += [*parts.end_all("REASONING"), *parts.delta("TEXT", "", text)]
        for piece in list_of(get(delta, "tool_calls")):
            events += self._call(piece)
        return events

    def _call(self, piece: object) -> list[JsonObject]:
        """One piece of a call. Pieces of several calls may alternate, so calls are ended at the end."""
        index, name_of_piece = get(piece, "index"), text_of(get(piece, "id"))
        called = get(piece, "function")
        name, args = text_of(get(called, "name")), text_of(get(called, "arguments"))
        # Some endpoints send no index, or the same for all calls: then a new id begins a new call, and a piece without an id
        # belongs to the last one. Others change the id from piece to piece: a piece without a name continues a call.
        for call in reversed(self._calls):
            if (not name_of_piece or not name or call.id == name_of_piece) and (index is None or call.place == index):
                return self._parts.args(call.key, args)
        key = name_of_piece or new_id()
        self._calls.append(_Call(key, index, name_of_piece))
        begins = [*self._parts.end_all("REASONING"), *self._parts.end_all("TEXT"), *self._parts.call(key, name)]
        return [*begins, *self._parts.args(key, args)]
