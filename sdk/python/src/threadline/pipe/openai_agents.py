"""Events of the OpenAI Agents SDK: those of ``Runner.run_streamed(…).stream_events()``."""

from .._ids import new_id
from .._json import JsonObject
from .items import get, key_of, list_of, plain, text_of
from .mapper import Mapper
from .openai_responses import ResponseEvents
from .parts import Steps, StreamParts

_TYPES = ("raw_response_event", "run_item_stream_event", "agent_updated_stream_event")
#: Items that repeat events of the model's own stream.
_SAID_BY_MODEL = ("reasoning_item", "handoff_call_item", "tool_call_item", "message_output_item")


class AgentEvents(Mapper):
    """Each agent is a step. What the model streams is mapped as events of the Responses API; items of the run add the results."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = Steps()
        self._agent: str | None = None
        self._model = ResponseEvents()
        # For items of a run without events of a model: those of guardrails, or of a run that is resumed.
        self._whole = StreamParts()
        self._has_streamed = False

    @staticmethod
    def knows(item: object) -> bool:
        return get(item, "type") in _TYPES

    def end(self) -> list[JsonObject]:
        return [*self._model.end(), *self._steps.last()]

    def _events(self, item: object) -> list[JsonObject] | None:
        kind = get(item, "type")
        if kind == "raw_response_event":
            return self._of_model(get(item, "data"))
        if kind == "agent_updated_stream_event":
            return self._enter(text_of(get(get(item, "new_agent"), "name")) or "agent")
        return self._of_item(get(item, "item")) if kind == "run_item_stream_event" else None

    def _of_model(self, data: object) -> list[JsonObject]:
        if get(data, "type") == "response.created":
            self._has_streamed = False
        elif get(data, "type") == "response.output_item.done":
            self._has_streamed = True
        return self._model.feed(data)

    def _enter(self, agent: str) -> list[JsonObject]:
        if agent == self._agent:
            return []
        left = [] if self._agent is None else [*self._model.end(), *self._steps.end(self._agent)]
        self._agent = agent
        return [*left, *self._steps.begin(agent)]

    def _of_item(self, item: object) -> list[JsonObject] | None:
        kind, raw = get(item, "type"), get(item, "raw_item")
        call_id = key_of(get(raw, "call_id")) or key_of(get(raw, "id"))
        if kind == "tool_call_output_item":
            return self._model.result(call_id, _output(get(item, "output")))
        if kind == "handoff_output_item":
            return self._model.result(call_id, get(raw, "output"))
        if kind == "mcp_approval_request_item":
            self._ask({"id": call_id or new_id(), "reason": "tool_call", "metadata": {"request": plain(raw)}})
            return []
        if kind in ("mcp_list_tools_item", "mcp_approval_response_item"):
            return []
        if kind not in _SAID_BY_MODEL:
            return self._unknown(text_of(kind), raw)
        if kind == "message_output_item" and not self._has_streamed:
            return self._message(raw)
        # A call of a model that does not stream; the id is that of the call.
        return self._model.item(raw, call_id) if kind.endswith("call_item") and not self._model.has_call(call_id) else []

    def _message(self, raw: object) -> list[JsonObject]:
        texts = [text_of(get(part, "text")) or text_of(get(part, "refusal")) for part in list_of(get(raw, "content"))]
        key = new_id()
        return [*self._whole.delta("TEXT", key, "".join(texts)), *self._whole.end("TEXT", key)]


def _output(output: object) -> object:
    """The output of a tool. The model sees the text of an object that is no JSON, so people do, too."""
    read = plain(output)
    return str(output) if isinstance(read, str) and not isinstance(output, str) else read
