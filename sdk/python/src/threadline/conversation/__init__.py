"""Messages and state from events, as the server folds them. See :class:`Conversation`."""

from .._json import JsonObject
from .conversation import Conversation

__all__ = ["Conversation", "JsonObject"]
