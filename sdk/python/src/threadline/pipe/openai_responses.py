"""Events of OpenAI's Responses API."""

import re

from .._json import JsonObject
from .items import custom, failed, get, json_text, key_of, text_of
from .mapper import Mapper
from .parts import StreamParts

#: Events of which the deltas, or the finished items, say the same.
_SAID_ELSEWHERE = re.compile(
    r"response\.(queued|in_progress|completed|incomplete|content_part\.\w+|output_text\.done|refusal\.done|reasoning_\w+\.done"
    r"|custom_tool_call_input\.delta|\w+_call\.\w+)"
)


class ResponseEvents(Mapper):
    def __init__(self) -> None:
        super().__init__()
        self._parts = StreamParts()
        # Calls of the present response, by their places in its output: their ids are not distinct with every endpoint.
        self._calls: dict[str, str] = {}

    @staticmethod
    def knows(item: object) -> bool:
        kind = text_of(get(item, "type"))
        return kind.startswith("response.") or (kind == "error" and get(item, "error") is None)

    def end(self) -> list[JsonObject]:
        return self._parts.last()

    def _events(self, item: object) -> list[JsonObject] | None:
        parts = self._parts
        kind = text_of(get(item, "type"))
        key = key_of(get(item, "output_index")) or key_of(get(item, "item_id"))
        delta = text_of(get(item, "delta"))
        if kind == "response.created":
            # Parts that another response of the same stream has left open end here: places are counted anew.
            self._calls = {}
            return parts.last()
        if kind == "response.output_item.added":
            return self._begin(get(item, "item"), key)
        if kind == "response.output_item.done":
            return self._end(get(item, "item"), key)
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            return parts.delta("TEXT", key, delta)
        if kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            return parts.delta("REASONING", key, delta)
        if kind == "response.reasoning_summary_part.added":
            # A summary has several paragraphs.
            return parts.delta("REASONING", key, "\n\n") if parts.is_open("REASONING", key) else []
        if kind in ("response.function_call_arguments.delta", "response.mcp_call_arguments.delta"):
            return parts.args(self._calls.get(key, ""), delta)
        if kind in ("response.function_call_arguments.done", "response.mcp_call_arguments.done"):
            return parts.end_call(self._calls.get(key, ""), text_of(get(item, "arguments")))
        if kind == "response.custom_tool_call_input.done":
            return parts.end_call(self._calls.get(key, ""), json_text(text_of(get(item, "input"))))
        if kind == "response.output_text.annotation.added":
            return [custom("annotation", get(item, "annotation"))]
        if kind == "response.failed":
            raise failed(get(get(item, "response"), "error") or item)
        if kind == "error":
            raise failed(get(item, "error") or item)
        return [] if kind == "keepalive" or _SAID_ELSEWHERE.fullmatch(kind) else None

    def result(self, call_id: str, output: object) -> list[JsonObject]:
        """The result of a call that the reader of the stream has carried out."""
        return self._parts.result(call_id, output)

    def item(self, item: object, key: str) -> list[JsonObject]:
        """A complete item of the output, unless the stream has had it in pieces."""
        return self._end(item, key)

    def has_call(self, call_id: str) -> bool:
        return self._parts.has_call(call_id)

    def _begin(self, item: object, key: str) -> list[JsonObject]:
        """Texts begin with their first piece."""
        call_id = _call_of(item)
        if call_id is None:
            return []
        self._calls[key] = call_id
        return self._parts.call(call_id, text_of(get(item, "name")))

    def _end(self, item: object, key: str) -> list[JsonObject]:
        parts, kind, call_id = self._parts, text_of(get(item, "type")), _call_of(item)
        if kind == "message":
            return parts.end("TEXT", key)
        if kind == "reasoning":
            return parts.end("REASONING", key)
        if call_id is None:
            # Searches, code and pictures, which the endpoint has carried out itself.
            return [custom(kind or "unmapped", item)]
        args = text_of(get(item, "arguments"))
        if kind == "custom_tool_call":
            args = json_text(text_of(get(item, "input")))
        ends = [*self._begin(item, key), *parts.end_call(call_id, args)]
        error, output = get(item, "error"), get(item, "output")
        if error:
            return [*ends, *parts.failure(call_id, str(failed(error)))]
        return [*ends, *parts.result(call_id, output)] if isinstance(output, str) else ends


def _call_of(item: object) -> str | None:
    """The id of the call that an item is; ``None`` for other items."""
    kind = text_of(get(item, "type"))
    if kind in ("function_call", "custom_tool_call"):
        return key_of(get(item, "call_id")) or key_of(get(item, "id"))
    return key_of(get(item, "id")) if kind == "mcp_call" else None
