"""Kinds of streams, told by the shape of their first items."""

from .agui import AgUiEvents
from .langgraph import LangGraphItems
from .mapper import Mapper
from .openai_agents import AgentEvents
from .openai_chat import ChatChunks
from .openai_responses import ResponseEvents
from .pydantic_ai import PydanticAiEvents

#: Items of LangGraph have the widest shapes, so they come last.
_KINDS = (AgUiEvents, AgentEvents, PydanticAiEvents, ChatChunks, ResponseEvents, LangGraphItems)


def mapper_for(first_item: object) -> Mapper | None:
    """The mapper for a stream that begins with this item; ``None`` if the stream is of no known kind.

    The mapper has not read the item: pass it to `feed` as well.
    """
    return next((kind() for kind in _KINDS if kind.knows(first_item)), None)
