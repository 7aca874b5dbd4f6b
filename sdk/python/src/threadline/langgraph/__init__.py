"""Persistence of LangGraph: a store for memories."""

from .store import ThreadlineStore

__all__ = ["ThreadlineStore"]
