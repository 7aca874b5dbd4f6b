"""Streams of LangGraph, of graphs whose models are scripted."""

import inspect
import operator
from collections.abc import AsyncIterator
from typing import Annotated, Any

from collecting import write
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command, Send, interrupt


class Scripted(BaseChatModel):
    """Says the chunks of one answer after the other."""

    answers: list[list[AIMessageChunk]]
    said: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _next(self) -> list[AIMessageChunk]:
        self.said += 1
        return [chunk.model_copy() for chunk in self.answers[self.said - 1]]

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> ChatResult:
        raise AssertionError("the graph streams")

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._next():
            yield ChatGenerationChunk(message=chunk)


class Whole(Scripted):
    """Does not stream."""

    async def _agenerate(self, *arguments: Any, **more: Any) -> ChatResult:
        first, *rest = self._next()
        for chunk in rest:
            first = first + chunk
        message = AIMessage(content=first.content, tool_calls=first.tool_calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    _astream = BaseChatModel._astream


class State(MessagesState):
    parcel: str
    seen: Annotated[list[str], operator.add]


def call(index: int | None, args: str, call_id: str | None = None, name: str | None = None) -> AIMessageChunk:
    chunk = {"name": name, "args": args, "id": call_id, "index": index, "type": "tool_call_chunk"}
    return AIMessageChunk(content="", tool_call_chunks=[chunk])


def said(*texts: str) -> list[AIMessageChunk]:
    return [AIMessageChunk(content=text) for text in texts]


def agent(*answers: list[AIMessageChunk], model: type[Scripted] = Scripted) -> Any:
    """A model and a tool in turn, until the model calls none."""
    scripted = model(answers=list(answers))

    async def think(state: State) -> dict[str, Any]:
        return {"messages": [await scripted.ainvoke(state["messages"])], "seen": ["think"]}

    async def look(state: State) -> dict[str, Any]:
        get_stream_writer()({"type": "progress", "done": 1})
        calls = state["messages"][-1].tool_calls
        results = [ToolMessage(content=f"at {made['args']['id']}", tool_call_id=made["id"]) for made in calls]
        return {"messages": results, "parcel": "found", "seen": ["look"]}

    def after(state: State) -> str:
        return "look" if state["messages"][-1].tool_calls else END

    graph = StateGraph(State).add_node("think", think).add_node("look", look).add_edge(START, "think")
    return graph.add_conditional_edges("think", after, ["look", END]).add_edge("look", "think")


CALLS = [
    [
        *said("Let me", " see."),
        call(0, '{"id":', "call-1", "look"),
        call(1, '{"id": 8}', "call-2", "look"),
        call(0, " 7}"),
    ],
    said("They are", " there."),
]
ASKED = {"messages": [HumanMessage("Where are my parcels?", id="asked")]}
ALL = ["messages", "updates", "values", "custom"]


def stream(graph: Any, given: Any = ASKED, **options: Any) -> AsyncIterator[object]:
    found: AsyncIterator[object] = graph.compile(options.pop("saver", None)).astream(given, **options)
    return found


async def interrupted(resume: bool) -> AsyncIterator[object]:
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "t"}}

    async def approve(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(content=f"Answer: {interrupt({'message': 'Send it?', 'id': 7})}")]}

    graph = StateGraph(State).add_node("approve", approve).add_edge(START, "approve").compile(saver)
    async for item in graph.astream(ASKED, config, stream_mode=ALL):
        if not resume:
            yield item
    if resume:
        async for item in graph.astream(Command(resume="yes"), config, stream_mode=ALL):
            yield item


async def subgraph() -> AsyncIterator[object]:
    inner = agent(*CALLS).compile()
    outer = StateGraph(State).add_node("team", inner).add_edge(START, "team").compile()
    async for item in outer.astream(ASKED, stream_mode=ALL, subgraphs=True):
        yield item


async def parallel() -> AsyncIterator[object]:
    model = Scripted(answers=[said("one", " by", " one"), said("two", " by", " two"), said("three", " by")])

    async def write_one(state: State) -> dict[str, Any]:
        return {"messages": [await model.ainvoke([HumanMessage("go")])]}

    def spread(state: State) -> list[Send]:
        return [Send("write", state) for _ in range(3)]

    graph = StateGraph(State).add_node("write", write_one).add_conditional_edges(START, spread, ["write"]).compile()
    async for item in graph.astream(ASKED, stream_mode=["messages", "updates"]):
        yield item


THINKING = [
    [
        AIMessageChunk(content=[{"type": "thinking", "thinking": "Hm", "index": 0}], id="msg-1"),
        AIMessageChunk(content=[{"type": "thinking", "thinking": ", well", "index": 0}]),
        AIMessageChunk(content=[{"type": "thinking", "signature": "s", "index": 0}]),
        AIMessageChunk(content=[{"type": "text", "text": "Yes", "index": 1}]),
        AIMessageChunk(content=[{"type": "text", "text": ".", "index": 1}, {"type": "hologram", "data": "x"}]),
        AIMessageChunk(content=[{"type": "hologram", "data": "y"}]),
    ]
]

streams = {
    "all": lambda: stream(agent(*CALLS), stream_mode=ALL),
    "messages": lambda: stream(agent(*CALLS), stream_mode="messages"),
    "updates": lambda: stream(agent(*CALLS, model=Whole), stream_mode="updates"),
    "values": lambda: stream(agent(*CALLS, model=Whole), stream_mode="values"),
    "whole": lambda: stream(agent(*CALLS, model=Whole), stream_mode=ALL),
    "tasks": lambda: stream(agent(*CALLS), stream_mode=["tasks", "messages", "updates", "debug"]),
    "thinking": lambda: stream(agent(*THINKING), stream_mode=["messages", "updates"]),
    "interrupted": lambda: interrupted(resume=False),
    "resumed": lambda: interrupted(resume=True),
    "subgraph": subgraph,
    "parallel": parallel,
}
if "version" in inspect.signature(Pregel.astream).parameters:
    streams["second version"] = lambda: stream(agent(*CALLS), stream_mode=ALL, version="v2")

write(streams)
