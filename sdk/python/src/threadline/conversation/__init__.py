"""Messages and state from events, as the server folds them. See :class:`Conversation`."""

from .conversation import Conversation, JsonObject

__all__ = ["Conversation", "JsonObject"]
