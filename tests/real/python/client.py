"""A typical AG-UI client in Python: the models of `ag-ui-protocol` and an HTTP library."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import httpx
from ag_ui.core import Event, Interrupt, Message, ResumeEntry, RunAgentInput, Tool, UserMessage
from ag_ui.encoder import EventEncoder
from pydantic import BaseModel, TypeAdapter

EVENT: TypeAdapter[Any] = TypeAdapter(Event)
MESSAGES: TypeAdapter[list[Any]] = TypeAdapter(list[Message])
INTERRUPTS: TypeAdapter[list[Interrupt]] = TypeAdapter(list[Interrupt])
# What came with 1.0. Before it the SDK has no name for it, and keeps it.
LATER = {".metadata", ".outcome.pendingToolCallIds"} if version("ag-ui-protocol").startswith("0.") else set()


def user(text: str) -> UserMessage:
    return UserMessage(id=str(uuid.uuid4()), content=text)


def read_event(data: str) -> Any:
    """One event, by the SDK's own model of it, and without anything that the SDK does not know."""
    event = EVENT.validate_json(data, strict=True)
    assert not (unknown := set(unknown_members(event)) - LATER), f"{unknown} in {data}"
    # What the SDK writes of it is what it has read: nothing was lost or understood otherwise.
    written = json.loads(EventEncoder().encode(event).removeprefix("data: "))
    assert without_nulls(written) == without_nulls(json.loads(data)), f"{written} of {data}"
    return event


def unknown_members(value: Any, path: str = "") -> Iterator[str]:
    """What a model has kept though it has no name for it."""
    if isinstance(value, BaseModel):
        yield from (f"{path}.{name}" for name in value.model_extra or {})
        for name in type(value).model_fields:
            yield from unknown_members(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_members(item, f"{path}[{index}]")


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


class Refused(Exception):
    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.text)
        self.status, self.problem = response.status_code, response.json()


class Chat:
    """A thread, with one agent."""

    def __init__(self, base: str, agent: str, thread_id: str | None = None) -> None:
        self.base, self.agent, self.thread_id = base, agent, thread_id or str(uuid.uuid4())
        self.http = httpx.Client(base_url=base, timeout=60)

    @contextmanager
    def open(self, run_input: RunAgentInput, seen: int | None = None) -> Iterator[Iterator[tuple[int, Any]]]:
        """Asks for a run: (seq, event), as they come."""
        headers = {"Accept": EventEncoder().get_content_type(), "Content-Type": "application/json"}
        headers |= {} if seen is None else {"Last-Event-ID": f"{self.get('')['epoch']}:{seen}"}
        body = run_input.model_dump_json(by_alias=True, exclude_none=True)
        with self.http.stream("POST", f"/agui/{self.agent}", content=body, headers=headers) as response:
            if response.status_code != 200:
                response.read()
                raise Refused(response)
            assert response.headers["content-type"].startswith("text/event-stream")
            yield ((seq, read_event(data)) for seq, data in events_of(response))

    def follow(self, run_id: str, after: int) -> list[tuple[int, Any]]:
        """Follows a run."""
        path, query = f"/v1/threads/{self.thread_id}/events", {"runId": run_id, "after": after, "epoch": self.get("")["epoch"]}
        with self.http.stream("GET", path, params=query, headers={"Accept": "text/event-stream"}) as response:
            return [(seq, read_event(json.dumps(json.loads(data)["event"]))) for seq, data in events_of(response)]

    def input(self, *messages: Any, **more: Any) -> RunAgentInput:
        members = {"run_id": str(uuid.uuid4()), "state": {}, "tools": [], "context": [], "forwarded_props": {}}
        return RunAgentInput(thread_id=self.thread_id, messages=list(messages), **members | more)

    def run(self, *messages: Any, **more: Any) -> list[Any]:
        """A whole run."""
        run_input = self.input(*messages, **more)
        with self.open(run_input) as stream:
            events = list(stream)
        seqs = [seq for seq, _ in events]
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs))), "no event is missing"
        events = [event for _, event in events]
        started, last = events[0], events[-1]
        assert (started.type, started.thread_id, started.run_id) == ("RUN_STARTED", self.thread_id, run_input.run_id)
        assert last.type in ("RUN_FINISHED", "RUN_ERROR"), last
        return events

    def get(self, path: str, **query: Any) -> Any:
        return self.http.get(f"/v1/threads/{self.thread_id}{path}", params=query).raise_for_status().json()

    def messages(self) -> list[Any]:
        """The conversation as the SDK has it: what a client shows that has just been opened."""
        messages = MESSAGES.validate_json(json.dumps(self.get("/messages")["messages"]), strict=True)
        assert not (unknown := list(unknown_members(messages))), unknown
        return messages

    def interrupts(self) -> list[Interrupt]:
        return INTERRUPTS.validate_json(json.dumps(self.get("/messages")["interrupts"]), strict=True)

    def log(self) -> list[tuple[int, Any]]:
        page = self.get("/events", limit=10_000)["events"]
        return [(entry["seq"], read_event(json.dumps(entry["event"]))) for entry in page]


def events_of(response: httpx.Response) -> Iterator[tuple[int, str]]:
    """The messages of an event stream; those with a name of their own are not AG-UI's."""
    seq, name = 0, "message"
    for line in response.iter_lines():
        match line.split(": ", 1):
            case ["id", value]:
                seq = int(value.split(":")[1])
            case ["event", value]:
                name = value
            case ["data", value] if name == "message":
                yield seq, value
            case [""]:
                name = "message"


def refusal(act: Callable[[], object]) -> Refused:
    try:
        act()
    except Refused as refused:
        return refused
    raise AssertionError("it was let in")


def ids(messages: list) -> list[str]:
    return [message.id for message in messages]


def text_of(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "TEXT_MESSAGE_CONTENT")


def answer(interrupt: Interrupt, approved: bool) -> ResumeEntry:
    return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload={"approved": approved})


SHOW_MAP = Tool(
    name="show_map",
    description="Shows a place on the map",
    parameters={"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
)
