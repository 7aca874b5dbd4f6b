"""Items of LangGraph: those of ``graph.astream(…)``, in every mode and in both versions of the stream."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .._ids import RESERVED_NAMES
from .._json import JsonObject
from .diff import diff
from .items import custom, get, key_of, list_of, plain, text_of
from .langgraph_messages import Messages, is_message
from .mapper import Mapper
from .parts import Steps

_MODES = ("values", "updates", "messages", "custom", "tasks", "checkpoints", "debug")
_INTERRUPT = "__interrupt__"


class _Part(NamedTuple):
    mode: str
    #: Path of the subgraph; empty for the graph itself.
    ns: tuple[str, ...]
    data: object


class Finished(NamedTuple):
    """Messages in a checkpoint of this run, before the items of the graph that continues from it: the take-up has superseded them."""

    messages: list[object]


class LangGraphItems(Mapper):
    """Messages are known by their ids, so one that was streamed and comes again in ``updates`` or ``values`` is passed over."""

    def __init__(self) -> None:
        super().__init__()
        self._messages = Messages(self._unknown)
        self._steps = Steps()
        # Nodes that stream messages, with the number of their step, by subgraph.
        self._nodes: dict[tuple[tuple[str, ...], str], int] = {}
        # Tasks that have begun, by their ids: their nodes.
        self._tasks: dict[str, str] = {}
        self._state: JsonObject | None = None
        self._has_values = False
        # Mode of a stream of one mode, whose items do not name it.
        self._mode: str | None = None

    @staticmethod
    def knows(item: object) -> bool:
        return isinstance(item, Finished) or _named(item) is not None or _mode_of(item) is not None

    def end(self) -> list[JsonObject]:
        return [*self._messages.end(), *self._steps.last()]

    def _events(self, item: object) -> list[JsonObject] | None:
        if isinstance(item, Finished):
            return self._messages.complete(item.messages)
        part = _named(item)
        if part is None:
            self._mode = self._mode or _mode_of(item)
            mode = _mode_of(item) if self._mode == "messages" else self._mode
            if mode is None:
                return None
            part = _Part(mode, (), item)
        mode, ns, data = part
        if mode == "messages":
            return self._message(ns, *list_of(data))
        if mode == "updates":
            return self._update(ns, data)
        if mode == "values":
            self._ask_all(get(item, "interrupts") if isinstance(item, Mapping) and "ns" in item else None)
            return self._values(ns, data)
        if mode == "tasks":
            return self._task(ns, data)
        return self._custom(data) if mode == "custom" else []

    def _message(self, ns: tuple[str, ...], message: object, metadata: object) -> list[JsonObject]:
        node, step = text_of(get(metadata, "langgraph_node")), get(metadata, "langgraph_step")
        path = tuple(text_of(get(metadata, "langgraph_checkpoint_ns")).split("|"))
        ns = path[:-1] or ns
        events = self._enter(ns, node, step if isinstance(step, int) else 0) if node else []
        return [*events, *self._messages.streamed(message, "|".join(path) or node)]

    def _enter(self, ns: tuple[str, ...], node: str, step: int) -> list[JsonObject]:
        """Begins the step of a node, and ends those of earlier steps of the same graph, whose updates are not streamed."""
        events: list[JsonObject] = []
        for known, (at, name) in [(number, key) for key, number in self._nodes.items()]:
            if at == ns and known < step:
                events += self._leave(ns, name)
        if (ns, node) in self._nodes or node in self._tasks.values():
            return events
        self._nodes[ns, node] = step
        return [*events, *self._steps.begin(_name(ns, node))]

    def _leave(self, ns: tuple[str, ...], node: str) -> list[JsonObject]:
        if self._nodes.pop((ns, node), None) is None:
            return []
        return self._steps.end(_name(ns, node))

    def _update(self, ns: tuple[str, ...], data: object) -> list[JsonObject] | None:
        if not isinstance(data, Mapping):
            return None
        events: list[JsonObject] = []
        for node, update in data.items():
            if node == _INTERRUPT:
                self._ask_all(update)
            elif not node.startswith("__"):
                messages = messages_in(update)
                said = self._messages.whole(messages)
                # A node that repeats streamed messages has had its step: it ran in parallel with itself, or is a subgraph.
                is_new = not self._steps.is_open(_name(ns, node)) and (bool(said) or not messages)
                if is_new:
                    self._nodes[ns, node] = 0
                    events += self._steps.begin(_name(ns, node))
                events += [*said, *self._leave(ns, node)]
        return events

    def _values(self, ns: tuple[str, ...], data: object) -> list[JsonObject] | None:
        # A state of a subgraph is part of the state of the graph, once the subgraph has ended.
        if ns:
            return []
        if isinstance(data, Mapping):
            members: Any = {name: data[name] for name in data if isinstance(name, str) and _is_state(name)}
        else:
            members = data if _has_members(data) else {"value": data}
        state = {name: value for name, value in plain(members).items() if _is_state(name)}
        if isinstance(data, Mapping):
            self._ask_all(data.get(_INTERRUPT))
        messages = list_of(get(data, "messages"))
        # The first values are those with which the graph begins.
        events = self._messages.whole(messages) if self._has_values else self._messages.begin_with(messages)
        self._has_values = True
        if state != {} and self._state is None:
            events.append({"type": "STATE_SNAPSHOT", "snapshot": state})
            self._state = state
        elif self._state is not None:
            delta = diff(self._state, state)
            if delta:
                events.append({"type": "STATE_DELTA", "delta": delta})
            self._state = state
        return events

    def _task(self, ns: tuple[str, ...], data: object) -> list[JsonObject]:
        task, node = key_of(get(data, "id")), text_of(get(data, "name"))
        if task in self._tasks:
            self._ask_all(get(data, "interrupts"))
            del self._tasks[task]
            return self._steps.end(_name(ns, node))
        if get(data, "input") is None and not get(data, "triggers"):
            return []
        self._tasks[task] = node
        return self._steps.begin(_name(ns, node))

    def _custom(self, data: object) -> list[JsonObject]:
        name = text_of(get(data, "name")) or text_of(get(data, "type")) if isinstance(data, Mapping) else ""
        return [custom("custom" if name == "" or name.startswith(RESERVED_NAMES) else name, data)]

    def _ask_all(self, interrupts: object) -> None:
        for interrupt in list_of(interrupts):
            value, schema = get(interrupt, "value"), get(interrupt, "response_schema")
            message = text_of(value) or text_of(get(value, "message") if isinstance(value, Mapping) else None)
            asked: JsonObject = {"id": key_of(get(interrupt, "id")), "reason": "input_required"}
            if message:
                asked["message"] = message
            if isinstance(schema, dict):
                asked["responseSchema"] = plain(schema)
            self._ask({**asked, "metadata": {"value": plain(value)}})


def _named(item: object) -> _Part | None:
    """A part that names its mode: ``(mode, data)``, ``(namespace, mode, data)``, or a part of version 2 of the stream."""
    if isinstance(item, Mapping):
        ns = item.get("ns")
        is_part = item.get("type") in _MODES and isinstance(ns, (list, tuple)) and "data" in item
        return _Part(item["type"], tuple(ns or ()), item["data"]) if is_part else None
    if not isinstance(item, tuple):
        return None
    if len(item) == 2 and isinstance(item[0], str) and item[0] in _MODES:
        return _Part(item[0], (), item[1])
    if len(item) == 3 and isinstance(item[0], tuple) and item[1] in _MODES:
        return _Part(item[1], item[0], item[2])
    return None


def _mode_of(item: object) -> str | None:
    """The mode of a stream of one mode, by an item that only this mode has."""
    if isinstance(item, tuple) and len(item) == 2 and is_message(item[0]) and isinstance(item[1], Mapping):
        return "messages"
    if not isinstance(item, Mapping) or not item or not all(isinstance(name, str) for name in item):
        return None
    if _INTERRUPT in item and len(item) == 1:
        return "updates"
    if messages_in(item):
        return "values"
    return "updates" if any(messages_in(update) for update in item.values()) else None


def messages_in(update: object) -> list[object]:
    """The messages in what a node has returned: a state, a list of states, or a command that has one."""
    if not isinstance(update, Mapping):
        inner = get(update, "update") if not isinstance(update, (list, tuple)) else None
        if inner is not None:
            return messages_in(inner)
        return [message for each in list_of(update) for message in ([each] if is_message(each) else messages_in(each))]
    members = [member for member in update.values() if isinstance(member, (list, tuple))]
    return [message for member in members for message in member if is_message(message)]


def _is_state(name: str) -> bool:
    """False for members of a graph's state that are shown as messages or interrupts."""
    return name != "messages" and not name.startswith("__")


def _has_members(data: object) -> bool:
    return hasattr(data, "model_dump") or hasattr(data, "__dataclass_fields__")


def _name(ns: tuple[str, ...], node: str) -> str:
    """The name of a node's step: with the nodes that its graph is part of. Their ids are left out, which follow a colon."""
    return "/".join([*(part.split(":", 1)[0] for part in ns), node])
