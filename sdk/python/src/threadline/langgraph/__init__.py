"""Persistence of LangGraph: a checkpointer, whose checkpoints go with threads, and a store for memories."""

from .saver import ThreadlineSaver
from .store import ThreadlineStore

__all__ = ["ThreadlineSaver", "ThreadlineStore"]
