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
    """The mapper of the stream that begins with this item, to which the item is still to be passed; ``None`` if no kind is known
    that has such an item.
    """
    return next((kind() for kind in _KINDS if kind.knows(first_item)), None)
