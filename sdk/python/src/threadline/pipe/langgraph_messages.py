"""Messages of LangChain, streamed in chunks or whole."""

from collections.abc import Callable, Iterable

from .._ids import new_id
from .._json import JsonObject
from .items import get, json_text, key_of, list_of, text_of
from .parts import StreamParts

_CHUNKS = ("AIMessageChunk",)
_ANSWERS = ("ai", "AIMessageChunk")
_TYPES = (*_ANSWERS, "human", "HumanMessageChunk", "system", "tool", "ToolMessageChunk", "remove", "chat", "function")
#: Ids that LangChain gives to messages whose model has not named them yet.
_OWN_IDS = ("run-", "lc_run-")
#: Blocks of a content that other members of the message repeat, or that tell people nothing.
_SILENT = ("tool_use", "tool_call", "tool_call_chunk", "input_json_delta", "redacted_thinking", "function_call")


class _Streamed:
    """A message that is streamed."""

    def __init__(self, message_id: str, is_own_id: bool) -> None:
        self.id = message_id
        self.is_own_id = is_own_id
        #: True once a chunk had an id of the other kind.
        self.has_both_ids = False
        #: Ids of its calls by their indices, and that of the last one.
        self.calls: dict[object, str] = {}
        self.last_call = ""


class Messages:
    """The messages of a stream, by their ids."""

    def __init__(self, unknown: Callable[[str, object], list[JsonObject]]) -> None:
        self._unknown = unknown
        self._parts = StreamParts()
        # Streamed messages by all ids that they have had.
        self._streamed: dict[str, _Streamed] = {}
        # The last message of each lane, which is a node's task.
        self._lanes: dict[str, _Streamed] = {}
        # Ids of messages that were passed on as a whole, or that need not be.
        self._known: set[str] = set()

    def begin_with(self, messages: Iterable[object]) -> list[JsonObject]:
        """Notes the messages with which a graph begins."""
        self._known.update(_key(message) for message in messages if key_of(get(message, "id")) not in self._streamed)
        return []

    def streamed(self, message: object, lane: str) -> list[JsonObject]:
        """A message in the mode ``messages``: a chunk, or a message of a model or a tool that does not stream."""
        if text_of(get(message, "type")) not in _CHUNKS:
            return self.whole([message])
        streamed = self._find(key_of(get(message, "id")), lane)
        events = self._content(streamed.id, get(message, "content"), get(message, "additional_kwargs"))
        for chunk in list_of(get(message, "tool_call_chunks")):
            events += self._call(streamed, chunk)
        return [*events, *self._end(streamed)] if get(message, "chunk_position") == "last" else events

    def whole(self, messages: Iterable[object]) -> list[JsonObject]:
        """Messages that are complete. What is before the last question of a person is history."""
        listed = list(messages)
        asked = [at for at, message in enumerate(listed) if text_of(get(message, "type")) == "human"]
        return self.complete(listed[asked[-1] + 1 if asked else 0 :])

    def complete(self, messages: Iterable[object]) -> list[JsonObject]:
        """Events of complete messages, none of which is history."""
        return [event for message in messages for event in self._one(message)]

    def end(self) -> list[JsonObject]:
        return self._parts.last()

    def _one(self, message: object) -> list[JsonObject]:
        key, kind = _key(message), text_of(get(message, "type"))
        streamed = self._streamed.get(key)
        if streamed is not None:
            self._known.add(key)
            return self._end(streamed)
        if key in self._known:
            return []
        self._known.add(key)
        if kind == "tool":
            call_id = key_of(get(message, "tool_call_id"))
            return self._parts.result(call_id, _result_of(get(message, "content")), key_of(get(message, "id")) or None)
        if kind not in _ANSWERS:
            return []
        message_id = key_of(get(message, "id")) or new_id()
        events = self._content(message_id, get(message, "content"), get(message, "additional_kwargs"))
        events += [*self._parts.end("REASONING", message_id), *self._parts.end("TEXT", message_id)]
        for call in list_of(get(message, "tool_calls")):
            call_id = key_of(get(call, "id")) or new_id()
            events += self._parts.call(call_id, text_of(get(call, "name")), message_id)
            events += self._parts.end_call(call_id, json_text(get(call, "args")))
        return events

    def _find(self, found: str, lane: str) -> _Streamed:
        """The message of a chunk. Chunks of one message may have two ids: LangChain's, and the model's from some chunk on."""
        streamed = self._streamed.get(found)
        if streamed is not None:
            return streamed
        is_own_id, last = found.startswith(_OWN_IDS), self._lanes.get(lane)
        if last is not None and last.is_own_id != is_own_id and not last.has_both_ids:
            last.has_both_ids = True
            self._streamed[found] = last
            return last
        streamed = _Streamed(found or new_id(), is_own_id)
        self._streamed[streamed.id] = self._lanes[lane] = streamed
        return streamed

    def _content(self, message_id: str, content: object, more: object) -> list[JsonObject]:
        # Extensions of DeepSeek and others.
        events = self._thought(message_id, text_of(get(more, "reasoning_content")))
        for block in [content] if isinstance(content, str) else list_of(content):
            events += self._text(message_id, block) if isinstance(block, str) else self._block(message_id, block)
        return events

    def _block(self, message_id: str, block: object) -> list[JsonObject]:
        kind = text_of(get(block, "type"))
        if kind in ("text", "output_text"):
            return self._text(message_id, text_of(get(block, "text")))
        if kind == "thinking":
            return self._thought(message_id, text_of(get(block, "thinking")))
        if kind == "reasoning":
            summary = "\n\n".join(text_of(get(part, "text")) for part in list_of(get(block, "summary")))
            return self._thought(message_id, text_of(get(block, "reasoning")) or summary)
        return [] if kind in _SILENT else self._unknown(f"block {kind}", block)

    def _text(self, message_id: str, delta: str) -> list[JsonObject]:
        ends = self._parts.end("REASONING", message_id) if delta else []
        return [*ends, *self._parts.delta("TEXT", message_id, delta, message_id)]

    def _thought(self, message_id: str, delta: str) -> list[JsonObject]:
        return self._parts.delta("REASONING", message_id, delta)

    def _call(self, streamed: _Streamed, chunk: object) -> list[JsonObject]:
        index, found, name = get(chunk, "index"), key_of(get(chunk, "id")), text_of(get(chunk, "name"))
        call_id = streamed.last_call if index is None else streamed.calls.get(index, "")
        begins: list[JsonObject] = []
        # A new id begins a new call, also where an endpoint repeats an index.
        if name and (not call_id or (found and found != call_id)):
            call_id = found or new_id()
            begins = [*self._parts.end("REASONING", streamed.id), *self._parts.call(call_id, name, streamed.id)]
        streamed.calls[index], streamed.last_call = call_id, call_id
        return [*begins, *self._parts.args(call_id, text_of(get(chunk, "args")))]

    def _end(self, streamed: _Streamed) -> list[JsonObject]:
        parts = self._parts
        calls = [event for call_id in streamed.calls.values() for event in parts.end_call(call_id)]
        return [*parts.end("REASONING", streamed.id), *parts.end("TEXT", streamed.id), *calls]


def is_message(value: object) -> bool:
    return text_of(get(value, "type")) in _TYPES and get(value, "content") is not None and not isinstance(value, dict)


def _key(message: object) -> str:
    """The id of a message; that of the object, if the message has none."""
    return key_of(get(message, "id")) or f"object {id(message)}"


def _result_of(content: object) -> object:
    """The content of a tool's message as text, if it consists of texts."""
    parts = list_of(content)
    texts = [part if isinstance(part, str) else get(part, "text") for part in parts]
    return "\n".join(texts) if parts and all(isinstance(text, str) for text in texts) else content
