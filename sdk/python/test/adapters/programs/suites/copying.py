"""Copies the checkpoints of a real `SqliteSaver`, and prints what the graph says before and after."""

from __future__ import annotations

import json
import sys
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from threadline import Threadline
from threadline.langgraph import ThreadlineSaver, copy_checkpoints


def graph(saver: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("ask", lambda state: {"messages": [("ai", f"You said {interrupt('What?')}")]})
    return builder.add_edge(START, "ask").compile(checkpointer=saver)


def main(path: str) -> None:
    threads: list[Any] = [{"configurable": {"thread_id": f"moved-{number}"}} for number in range(2)]
    with SqliteSaver.from_conn_string(path) as old, Threadline(user="moved") as client:
        for config in threads:
            graph(old).invoke({"messages": [("user", "Hi")]}, config)
        graph(old).invoke(Command(resume="yes"), threads[0])
        saver = ThreadlineSaver(client)
        count = copy_checkpoints(old, saver)
        before = [[one.values, one.next, one.metadata] for config in threads for one in graph(old).get_state_history(config)]
        after = [[one.values, one.next, one.metadata] for config in threads for one in graph(saver).get_state_history(config)]
        said = graph(saver).invoke(Command(resume="no"), threads[1])["messages"][-1].content
        again = len(graph(saver).invoke({"messages": [("user", "And?")]}, threads[0])["messages"])
    print(json.dumps({"count": count, "states": len(before), "equal": before == after, "said": said, "messages": again}))


main(sys.argv[1])
