"""Writers of the parts of a run: messages, tool calls, steps. Each part has events that begin and end it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, ContextManager, Generator, Iterable, Dict, List, Mapping, Optional, Sequence, Type, Union

from .._errors import ConfigError
from .._ids import RESERVED_NAMES, new_id
from .._json import JsonObject, plain, to_json
from ..pipe import mapper_for


class Interrupted(Exception):
    """Leaves the body of a run that waits for answers. The end of the block suppresses the error."""

    def __init__(self, run: object) -> None:
        super().__init__("the run waits for answers")
        self.run = run


class Part:
    """A part of a run: a block of `with`, which begins and ends it. It begins with its first piece at the latest."""

    def __init__(self, run: Writers, begin: List[JsonObject], end: List[JsonObject]) -> None:
        self._run = run
        self._begin: Optional[List[JsonObject]] = begin
        self._end: Optional[List[JsonObject]] = end

    def __enter__(self) -> Any:
        self._begun()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        # The end of the run ends what a cancelled body leaves open.
        if error is None or isinstance(error, Exception):
            self.end()

    def end(self) -> None:
        """Ends the part; does nothing if it has ended."""
        end, self._end = self._end, None
        if end is None or self._begin is not None:
            return
        self._run._parts.remove(self)
        self._run._append(end, told=False)

    def _begun(self) -> None:
        begin, self._begin = self._begin, None
        if begin is not None:
            self._run._parts.append(self)
            try:
                self._run._append(begin)
            except Exception:
                # Refused: the log has no beginning that an end would end. A cancelled append has its place in the queue.
                self._run._parts.remove(self)
                self._end = None
                raise

    def _piece(self, type_: str, delta: str, members: Mapping[str, Any]) -> None:
        if self._end is None:
            raise self._run._refuse(ConfigError(f"{type_} after the end: begin another part"))
        if not isinstance(delta, str):
            raise self._run._refuse(ConfigError(f"a piece of {type_} must be a string, not {type(delta).__name__}"))
        self._begun()
        # A piece of AG-UI is not empty.
        if delta:
            self._run._append([{"type": type_, **members, "delta": delta}])


class Text(Part):
    """Writes one message."""

    def __init__(self, run: Writers, begin: List[JsonObject], end: List[JsonObject], type_: str, members: Mapping[str, Any]) -> None:
        super().__init__(run, begin, end)
        self.message_id: str = members["messageId"]
        self._type = type_
        self._members = members

    def __enter__(self) -> Text:
        self._begun()
        return self

    def write(self, delta: str) -> None:
        """Appends a piece of text."""
        self._piece(self._type, delta, self._members)


class ToolCall(Part):
    """Writes one tool call."""

    def __init__(self, run: Writers, begin: List[JsonObject], members: Mapping[str, Any], arguments: Optional[str]) -> None:
        super().__init__(run, begin, [{"type": "TOOL_CALL_END", **members}])
        self.tool_call_id: str = members["toolCallId"]
        self._members = members
        self._arguments = arguments

    def __enter__(self) -> ToolCall:
        self._begun()
        return self

    def write(self, delta: str) -> None:
        """Appends a piece of the arguments, which are JSON text; not for a call that began with complete arguments."""
        self._piece("TOOL_CALL_ARGS", delta, self._members)

    def result(self, value: Any) -> None:
        """Appends the result: a string as it is, any other value as JSON text. Ends the arguments before."""
        try:
            content = value if isinstance(value, str) else to_json(value)
        except ConfigError as error:
            raise self._run._refuse(error) from error
        self._begun()
        self.end()
        result = {"type": "TOOL_CALL_RESULT", "messageId": new_id(), **self._members, "role": "tool", "content": content}
        self._run._append([result])

    def _begun(self) -> None:
        arguments, self._arguments = self._arguments, None
        super()._begun()
        if arguments is not None:
            self.write(arguments)
            self.end()


class States:
    """The state of the thread."""

    def __init__(self, run: Writers) -> None:
        self._run = run

    def set(self, state: Any) -> None:
        """Replaces the state."""
        self._run._append([{"type": "STATE_SNAPSHOT", "snapshot": state}])

    def patch(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """Changes the state by a JSON Patch (RFC 6902)."""
        self._run._append([{"type": "STATE_DELTA", "delta": list(operations)}])


class Writers(ABC):
    """Methods by which a body writes into its run: a run that this program produces, or one that an endpoint returns."""

    thread_id: str
    run_id: str

    def __init__(self) -> None:
        self.state = States(self)
        """Changes the state of the thread."""
        # Parts that have begun and not ended, in the order in which they began.
        self._parts: List[Part] = []

    @abstractmethod
    def _append(self, events: Sequence[JsonObject], *, told: bool = True) -> None:
        """Appends events. Without `told`, also after a stop was requested."""

    @abstractmethod
    def _refuse(self, error: ConfigError) -> ConfigError:
        """Notes the reason of a refused event, after which the run cannot be finished. Returns the error to raise."""

    def text(
        self,
        *,
        message_id: Optional[str] = None,
        role: str = "assistant",
        name: Optional[str] = None,
        subagent_run_id: Optional[str] = None,
    ) -> Text:
        """A writer for a message, to use with `with`. `message_id` is a new id by default.

        `role` and `name` are those of the message. `subagent_run_id`: the run of the subagent that speaks.
        """
        owner = _owner(subagent_run_id)
        members = {"messageId": message_id or new_id(), **owner}
        named = {"name": name} if name is not None else {}
        begin: JsonObject = {"type": "TEXT_MESSAGE_START", "role": role, **named, **members}
        return Text(self, [begin], [{"type": "TEXT_MESSAGE_END", **members}], "TEXT_MESSAGE_CONTENT", members)

    def reasoning(self, *, message_id: Optional[str] = None, subagent_run_id: Optional[str] = None) -> Text:
        """A writer for reasoning, to use with `with`. `message_id` is a new id by default."""
        members = {"messageId": message_id or new_id(), **_owner(subagent_run_id)}
        begin = [
            {"type": "REASONING_START", **members},
            {"type": "REASONING_MESSAGE_START", "role": "reasoning", **members},
        ]
        end = [{"type": "REASONING_MESSAGE_END", **members}, {"type": "REASONING_END", **members}]
        return Text(self, begin, end, "REASONING_MESSAGE_CONTENT", members)

    def tool_call(
        self,
        name: str,
        arguments: Any = None,
        *,
        tool_call_id: Optional[str] = None,
        parent_message_id: Optional[str] = None,
        subagent_run_id: Optional[str] = None,
    ) -> ToolCall:
        """A writer for a tool call, to use with `with`. `tool_call_id` is a new id by default.

        `arguments` are the complete arguments, a JSON object; without them, `write` streams their JSON text. Arguments that are not JSON
        raise `ConfigError`.
        """
        members = {"toolCallId": tool_call_id or new_id(), **_owner(subagent_run_id)}
        parent = {"parentMessageId": parent_message_id} if parent_message_id is not None else {}
        begin: JsonObject = {"type": "TOOL_CALL_START", "toolCallName": name, **parent, **members}
        try:
            text = None if arguments is None else to_json(arguments)
        except ConfigError as error:
            raise self._refuse(error) from error
        return ToolCall(self, [begin], members, text)

    def step(self, name: str) -> Part:
        """A step around the block of `with`: STEP_STARTED before it, and STEP_FINISHED after it."""
        return Part(self, [{"type": "STEP_STARTED", "stepName": name}], [{"type": "STEP_FINISHED", "stepName": name}])

    def custom(self, name: str, value: Any = None) -> None:
        """Appends a CUSTOM event with a JSON value. Names that begin with `threadline.` are reserved, and raise `ConfigError`."""
        if name.startswith(RESERVED_NAMES):
            raise self._refuse(ConfigError(f"{name} is a name of the server's: choose one without {RESERVED_NAMES}"))
        self._append([{"type": "CUSTOM", "name": name, "value": value}])

    def append(self, *events: object) -> None:
        """Appends events: dicts with a `type`, or models of AG-UI. Returns when there is room for more (10,000 events, 16 MiB).

        Raises `ConfigError` for an object that is no event, `StopRequested` after a stop request with `stop="flag"`, `RunFenced` if another
        process has taken up the run, and `Closed` after the end of the run.

        A TEXT_MESSAGE_CHUNK without a `messageId` continues the message of the chunk right before it, or begins one. A
        RUN_STARTED that names this run is dropped, since the log has one.
        """
        try:
            known = [plain(event) for event in events]
        except ConfigError as error:
            raise self._refuse(error) from error
        self._append(known)

    def interrupt(self, *asks: Mapping[str, Any]) -> None:
        """Ends the run with questions to a person, and leaves the body. A later run answers them with `resume`.

        A question is AG-UI's Interrupt, such as `{"message": "Send it?", "toolCallId": …}`; without an `id` it gets one.
        """
        if not asks:
            raise self._refuse(ConfigError("interrupt needs at least one question"))
        interrupts: List[Dict[str, Any]] = []
        for ask in asks:
            reason = "input_required" if ask.get("toolCallId") is None else "tool_call"
            interrupts.append({"id": new_id(), "reason": reason, **ask})
        self._end_parts()
        outcome = {"type": "interrupt", "interrupts": interrupts}
        self._append([{"type": "RUN_FINISHED", "threadId": self.thread_id, "runId": self.run_id, "outcome": outcome}])
        raise Interrupted(self)

    def pipe(self, stream: Union[Iterable[Any], ContextManager[Iterable[Any]]]) -> None:
        """Appends a stream: AG-UI events, or items of LangGraph, pydantic-ai, the OpenAI Agents SDK or OpenAI's APIs.

        A stream that is a context manager, such as one of pydantic-ai, is entered and exited. The first item decides the kind of the
        stream; an unknown kind raises `ConfigError`. RUN_STARTED, RUN_FINISHED and RUN_ERROR of the stream are left out. Questions of the
        stream end this run, as `interrupt` does. Raises `StreamFailed` if the stream reports an error.
        """
        if isinstance(stream, ContextManager) and not isinstance(stream, Iterable):
            with stream as entered:
                self.pipe(entered)
            return
        mapper = None
        try:
            for item in stream:
                if mapper is None:
                    mapper = mapper_for(item)
                    if mapper is None:
                        raise self._refuse(ConfigError(f"a stream of {type(item).__name__} is of no kind that pipe knows"))
                self._append(mapper.feed(item))
            if mapper is not None:
                self._append(mapper.end())
        finally:
            # A stream that is not read to its end is closed, where it can be.
            if isinstance(stream, Generator):
                stream.close()
        if mapper is not None and mapper.interrupts:
            self.interrupt(*mapper.interrupts)

    def _end_parts(self) -> None:
        """Ends all open parts, in the order in which they began."""
        for part in list(self._parts):
            part.end()


def _owner(subagent_run_id: Optional[str]) -> Dict[str, Any]:
    """The subagent that all events of a part name."""
    return {} if subagent_run_id is None else {"subagentRunId": subagent_run_id}
