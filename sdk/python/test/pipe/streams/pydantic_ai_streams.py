"""Streams of pydantic-ai, of agents whose models are scripted, and the same runs as AG-UI events of its own."""

import inspect
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import EventType, TextMessageChunkEvent
from collecting import write
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel


def answers(messages: list[ModelMessage]) -> int:
    return sum(isinstance(message, ModelResponse) for message in messages)


async def calling(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    if answers(messages) == 0:
        yield {0: DeltaThinkingPart(content="Hm")}
        yield {0: DeltaThinkingPart(content=", well")}
        yield "Let me"
        yield " see."
        yield {2: DeltaToolCall(name="look", json_args='{"id":', tool_call_id="call-1")}
        yield {2: DeltaToolCall(json_args=" 7}")}
        yield {3: DeltaToolCall(name="look", json_args='{"id": 8}', tool_call_id="call-2")}
    else:
        yield "They are"
        yield " there."


async def failing(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    number = answers(messages) + 1
    if number < 3:
        yield {0: DeltaToolCall(name="look", json_args=f'{{"id": {number}}}', tool_call_id=f"call-{number}")}
    else:
        yield "Done"


class Place(BaseModel):
    city: str


async def choosing(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    yield {0: DeltaToolCall(name="final_result", json_args='{"city":', tool_call_id="call-1")}
    yield {0: DeltaToolCall(json_args=' "Bern"}')}


async def asking(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    yield {0: DeltaToolCall(name="send", json_args="{}", tool_call_id="call-1")}


def agent(model: Any, **options: Any) -> Agent[None, Any]:
    made: Agent[None, Any] = Agent(FunctionModel(stream_function=model), **options)

    @made.tool_plain(retries=3)
    def look(id: int) -> dict[str, int]:
        if model is failing and id == 1:
            raise ModelRetry("There is no parcel 1.")
        return {"at": id}

    @made.tool_plain(requires_approval=True)
    def send() -> str:
        raise AssertionError("nobody has approved")

    return made


async def events(made: Agent[None, Any]) -> AsyncIterator[object]:
    stream: Any = made.run_stream_events("Where are my parcels?")
    # The stream is a context manager in later versions, and must be one there.
    if hasattr(stream, "__aenter__"):
        async with stream as entered:
            async for item in entered:
                yield item
        return
    assert inspect.isasyncgen(stream)
    async for item in stream:
        yield item


async def ag_ui(made: Agent[None, Any]) -> AsyncIterator[object]:
    from ag_ui.core import RunAgentInput, UserMessage
    from pydantic_ai.ui.ag_ui import AGUIAdapter

    asked = UserMessage(id="asked", role="user", content="Where are my parcels?")
    more: dict[str, Any] = {"state": None, "tools": [], "context": [], "forwarded_props": None}
    given = RunAgentInput(thread_id="t", run_id="r", messages=[asked], **more)
    async for item in AGUIAdapter(agent=made, run_input=given).run_stream():
        yield item


async def chunks() -> AsyncIterator[object]:
    for delta in ("Hel", "lo"):
        yield TextMessageChunkEvent(type=EventType.TEXT_MESSAGE_CHUNK, delta=delta)


write(
    {
        "calls": lambda: events(agent(calling)),
        "retry": lambda: events(agent(failing)),
        "output": lambda: events(agent(choosing, output_type=Place)),
        "approval": lambda: events(agent(asking, output_type=[str, DeferredToolRequests])),
        "ag-ui": lambda: ag_ui(agent(calling)),
        "chunks": chunks,
    }
)
