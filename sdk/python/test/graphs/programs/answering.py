"""A process that produces a run by a graph, and prints what it does. A test kills it, and starts it again.

usage: answering.py THREAD RUN (async | sync) (question | answer)
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Annotated, Any, Dict, Iterator, List, Optional

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from threadline import AsyncThreadline, Threadline, user
from threadline.langgraph import ThreadlineSaver, astream, stream

QUESTION = "Where is my parcel?"
CALL = {"name": "look", "args": '{"id":7}', "id": "call-1", "index": 0, "type": "tool_call_chunk"}
ANSWERS: Dict[str, List[Any]] = {
    "think": ["Let ", "me ", "see. ", CALL],
    "tell": ["It ", "is ", "at ", "home. "],
    "close": ["Any", "thing ", "else?"],
}


def does(what: str) -> None:
    print(what, flush=True)
    # The test reads a line, and kills this process in the middle of what follows.
    time.sleep(float(os.environ.get("PIECE_SECONDS", "0")))


class Scripted(BaseChatModel):
    """Says the pieces of one answer."""

    node: str

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: List[BaseMessage], *arguments: Any, **more: Any) -> ChatResult:
        whole, *others = [chunk.message for chunk in self._stream(messages)]
        for other in others:
            whole = whole + other
        message = AIMessage(content=whole.content, tool_calls=getattr(whole, "tool_calls", []))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: List[BaseMessage],
        stop: Optional[List[str]] = None,
        run_manager: Optional[CallbackManagerForLLMRun] = None,
        **more: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for piece in ANSWERS[self.node]:
            if isinstance(piece, str):
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
            else:
                yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[piece]))
            does(f"{self.node} {piece.strip() if isinstance(piece, str) else 'call'}")


class State(MessagesState):
    steps: Annotated[List[str], lambda old, new: [*old, *new]]


def says(node: str) -> Any:
    def step(state: State) -> Dict[str, Any]:
        return {"messages": [Scripted(node=node).invoke(state["messages"])], "steps": [node]}

    return step


def look(state: State) -> Dict[str, Any]:
    does("look")
    return {"messages": [ToolMessage("at home", tool_call_id="call-1")], "steps": ["look"]}


def ask(state: State) -> Dict[str, Any]:
    return {"steps": [f"asked: {interrupt('Tell you?')}"]}


def graph(saver: Any) -> Any:
    builder = StateGraph(State)
    for name, step in {"think": says("think"), "look": look, "ask": ask, "tell": says("tell"), "close": says("close")}.items():
        builder.add_node(name, step)
    for before, after in [(START, "think"), ("think", "look"), ("look", "ask"), ("ask", "tell"), ("tell", "close"), ("close", END)]:
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver)


def begun(client: Any, thread_id: str, run_id: str, turn: str) -> Any:
    """The run, the input of the graph, and its config."""
    config = {"configurable": {"thread_id": thread_id}}
    thread = client.thread(thread_id)
    if turn == "question":
        run = thread.run(messages=[user(QUESTION)], run_id=run_id, tools_repeatable=True)
        return run, {"messages": [("user", QUESTION)]}, config
    interrupt_id = os.environ["INTERRUPT"]
    answer = {"interruptId": interrupt_id, "status": "resolved", "payload": "yes"}
    run = thread.run(resume=[answer], run_id=run_id, tools_repeatable=True)
    return run, Command(resume={interrupt_id: "yes"}), config


async def asynchronous(thread_id: str, run_id: str, turn: str) -> None:
    async with AsyncThreadline() as client:
        run, given, config = begun(client, thread_id, run_id, turn)
        async with run:
            does(f"attempt {run.attempt}")
            await run.pipe(astream(run, graph(ThreadlineSaver(client)), given, config, durability="sync"))
        print(run.record.status)


def synchronous(thread_id: str, run_id: str, turn: str) -> None:
    with Threadline() as client:
        run, given, config = begun(client, thread_id, run_id, turn)
        with run:
            does(f"attempt {run.attempt}")
            run.pipe(stream(run, graph(ThreadlineSaver(client)), given, config, durability="sync"))
        print(run.record.status)


if __name__ == "__main__":
    _, thread_id, run_id, kind, turn = sys.argv
    if kind == "async":
        asyncio.run(asynchronous(thread_id, run_id, turn))
    else:
        synchronous(thread_id, run_id, turn)
