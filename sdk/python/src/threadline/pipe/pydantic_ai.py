"""Events of pydantic-ai: those of ``agent.run_stream_events(…)``, and of event stream handlers."""

from .._ids import new_id
from .._json import JsonObject
from .items import custom, get, json_text, key_of, list_of, plain, text_of
from .mapper import Mapper
from .parts import StreamParts

#: Events of the run by which a stream may begin.
_FIRST = ("function_tool_call", "output_tool_call", "function_tool_result", "deferred_tool_requests", "agent_run_result")
#: Events about settings of a run, which tell people nothing.
_INTERNAL = (
    "tool_availability_delta",
    "capability_load_delta",
    "model_settings_delta",
    "enqueued_messages",
    "deferred_tool_results",
    # Repetitions of the parts of the model's answer.
    "builtin_tool_call",
    "builtin_tool_result",
)
_KINDS = ("text", "thinking")


class PydanticAiEvents(Mapper):
    def __init__(self) -> None:
        super().__init__()
        self._parts = StreamParts()
        # The parts of the present answer by their indices: their kinds, and the ids of calls.
        self._open: dict[int, tuple[str, str]] = {}
        # The call of an output tool that has given the result of the run.
        self._output: str | None = None

    @staticmethod
    def knows(item: object) -> bool:
        kind = get(item, "event_kind")
        return isinstance(kind, str) and (kind.startswith("part_") or kind in ("final_result", *_FIRST, *_INTERNAL))

    def end(self) -> list[JsonObject]:
        return self._parts.last()

    def _events(self, item: object) -> list[JsonObject] | None:
        kind = get(item, "event_kind")
        if kind == "part_start":
            return self._start(get(item, "index"), get(item, "part"))
        if kind == "part_delta":
            return self._delta(get(item, "index"), get(item, "delta"))
        if kind == "part_end":
            return self._end(get(item, "index"), get(item, "part"))
        if kind == "final_result":
            self._output = get(item, "tool_call_id")
            return []
        if kind in ("function_tool_call", "output_tool_call"):
            return self._call(get(item, "part"))
        if kind in ("function_tool_result", "output_tool_result"):
            # The name of the member differs between versions.
            return self._result(get(item, "part") or get(item, "result"))
        if kind == "deferred_tool_requests":
            return self._defer(get(item, "requests"))
        if kind == "agent_run_result":
            return self._finish(get(get(item, "result"), "output"))
        if kind == "custom":
            return [custom(text_of(get(item, "name")) or "custom", item)]
        return [] if kind in _INTERNAL else None

    def _start(self, index: int, part: object) -> list[JsonObject] | None:
        # Each answer of the model counts its parts anew, and a part may be replaced by another one.
        ended = [event for at in sorted(self._open) if index in (0, at) for event in self._end(at, None)]
        kind = text_of(get(part, "part_kind"))
        if kind in _KINDS:
            key = new_id()
            self._open[index] = (kind, key)
            self._begin_answer(index)
            return [*ended, *self._text(kind, key, text_of(get(part, "content")))]
        if kind in ("tool-call", "builtin-tool-call"):
            call_id = key_of(get(part, "tool_call_id"))
            self._open[index] = (kind, call_id)
            begins = self._parts.call(call_id, text_of(get(part, "tool_name")))
            return [*ended, *begins, *self._parts.args(call_id, _args(get(part, "args")))]
        if kind == "builtin-tool-return":
            return [*ended, *(self._result(part) or [])]
        return [*ended, *self._unknown(f"part {kind}", part)]

    def _begin_answer(self, index: int) -> None:
        if index == 0:
            self._parts.parent = None

    def _text(self, kind: str, key: str, delta: str) -> list[JsonObject]:
        return self._parts.delta("TEXT" if kind == "text" else "REASONING", key, delta)

    def _delta(self, index: int, delta: object) -> list[JsonObject] | None:
        kind = text_of(get(delta, "part_delta_kind"))
        open_kind, key = self._open[index]
        if kind in _KINDS:
            return self._text(open_kind, key, text_of(get(delta, "content_delta")))
        if kind == "tool_call":
            return self._parts.args(key, _args(get(delta, "args_delta")))
        return None

    def _end(self, index: int, part: object) -> list[JsonObject]:
        kind, key = self._open.pop(index, ("", ""))
        if kind in _KINDS:
            return self._parts.end("TEXT" if kind == "text" else "REASONING", key)
        return self._parts.end_call(key, _args(get(part, "args"))) if kind else []

    def _call(self, part: object) -> list[JsonObject]:
        call_id = key_of(get(part, "tool_call_id"))
        begins = self._parts.call(call_id, text_of(get(part, "tool_name")))
        return [*begins, *self._parts.end_call(call_id, _args(get(part, "args")))]

    def _result(self, part: object) -> list[JsonObject] | None:
        call_id = key_of(get(part, "tool_call_id"))
        if not call_id:
            return None
        # If the model is asked to try again, the result is what it is told.
        return self._parts.result(call_id, get(part, "content"))

    def _defer(self, requests: object) -> list[JsonObject]:
        """Calls that a person has to approve. Those that others carry out wait for their results, as calls of a page do."""
        for part in list_of(get(requests, "approvals")):
            call_id = key_of(get(part, "tool_call_id"))
            known = get(requests, "metadata")
            metadata = known.get(call_id) if isinstance(known, dict) else None
            noted = {} if metadata is None else {"metadata": plain(metadata)}
            self._ask({"id": call_id, "reason": "tool_call", "toolCallId": call_id, **noted})
        return []

    def _finish(self, output: object) -> list[JsonObject]:
        ended = [event for at in sorted(self._open) for event in self._end(at, None)]
        if get(output, "approvals") is not None and get(output, "calls") is not None:
            return [*ended, *self._defer(output)]
        if self._output is None or not self._parts.has_call(self._output):
            return ended
        return [*ended, *self._parts.result(self._output, output)]


def _args(args: object) -> str:
    """Arguments of a call as JSON text: a piece of it, or all of it."""
    return args if isinstance(args, str) else "" if args is None else json_text(args)
