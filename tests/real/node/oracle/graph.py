"""A graph for `langgraph dev` that does as it is told: `say …`, `find …`, `ask`, `fail`, as the agent of `../chats.mjs`."""

from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt


@tool
def find(q: str) -> str:
    """Finds parcels."""
    return f"hits of {q}"


def answer(messages):
    """Pieces of the answer to these messages."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return [AIMessageChunk("Two "), AIMessageChunk("hits.")]
    verb, _, rest = str(last.content).partition(" ")
    if verb == "find":
        call = {"name": "find", "args": f'{{"q":"{rest}"}}', "id": f"call-{uuid4()}", "index": 0}
        return [AIMessageChunk("", tool_call_chunks=[call])]
    return [AIMessageChunk(word) for word in (rest.split(" ") if rest else ["Not sent."])]


class Script(BaseChatModel):
    @property
    def _llm_type(self):
        return "script"

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for piece in answer(messages):
            chunk = ChatGenerationChunk(message=piece)
            if run_manager:
                run_manager.on_llm_new_token(piece.content, chunk=chunk)
            yield chunk

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        whole = sum(answer(messages)[1:], answer(messages)[0])
        message = AIMessage(whole.content, tool_calls=whole.tool_calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


def agent(state):
    said = state["messages"][-1].content
    if said == "ask":
        interrupt({"message": "Sure?"})
    if said == "fail":
        raise RuntimeError("The agent cannot do that.")
    return {"messages": [Script().invoke(state["messages"])]}


def next_of(state):
    return "tools" if state["messages"][-1].tool_calls else END


graph = StateGraph(MessagesState)
graph.add_node("agent", agent)
graph.add_node("tools", ToolNode([find]))
graph.add_edge(START, "agent")
graph.add_conditional_edges("agent", next_of, ["tools", END])
graph.add_edge("tools", "agent")
graph = graph.compile()
