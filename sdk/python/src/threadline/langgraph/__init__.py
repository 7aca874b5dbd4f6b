"""Persistence for LangGraph: a checkpointer, whose checkpoints belong to threads, and a store for long-term memory."""

from .saver import ThreadlineSaver
from .store import ThreadlineStore

__all__ = ["ThreadlineSaver", "ThreadlineStore"]
