"""A graph that resumes where a killed process has stopped. The model is scripted, so the example runs offline.

usage: agent.py THREAD    STEP_SECONDS: duration of each step, in seconds (default: 1)

THREADLINE_URL and THREADLINE_API_KEY name the server (default: http://localhost:7420).
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.base import BaseStore
from threadline import Threadline
from threadline.langgraph import ThreadlineSaver, ThreadlineStore

PARCELS = ["a book", "a kettle", "a lamp", "a map", "a plant"]


class State(MessagesState):
    found: list[str]


def look(state: State) -> dict[str, Any]:
    """Looks for one parcel, which takes STEP_SECONDS."""
    parcel = PARCELS[len(state["found"])]
    print(f"looking for {parcel}", flush=True)
    time.sleep(float(os.environ.get("STEP_SECONDS", "1")))
    return {"found": [*state["found"], parcel]}


def more(state: State) -> str:
    return "look" if len(state["found"]) < len(PARCELS) else "answer"


def answer(state: State, *, store: BaseStore) -> dict[str, Any]:
    """Answers, and counts the questions of all threads in the store."""
    before = store.get(("parcels",), "asked")
    asked = (before.value["times"] if before else 0) + 1
    store.put(("parcels",), "asked", {"times": asked})
    model = GenericFakeChatModel(messages=iter([AIMessage(f"Found {', '.join(state['found'])}. Questions so far: {asked}.")]))
    return {"messages": [model.invoke(state["messages"])]}


def build(client: Threadline) -> Any:
    graph = StateGraph(State).add_node("look", look).add_node("answer", answer)
    graph.add_edge(START, "look").add_conditional_edges("look", more, ["look", "answer"]).add_edge("answer", END)
    return graph.compile(checkpointer=ThreadlineSaver(client), store=ThreadlineStore(client))


def main(thread_id: str) -> None:
    with Threadline(os.environ.get("THREADLINE_URL", "http://localhost:7420")) as client:
        graph = build(client)
        config = {"configurable": {"thread_id": thread_id}}
        # An interrupted graph has tasks that are left: the input None resumes the graph there.
        goes_on = bool(graph.get_state(config).tasks)
        print("goes on" if goes_on else "begins", flush=True)
        question = None if goes_on else {"messages": [("user", "Where are my parcels?")], "found": []}
        # `sync`: each step is stored before the next one begins.
        state = graph.invoke(question, config, durability="sync")
        print(state["messages"][-1].content, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
