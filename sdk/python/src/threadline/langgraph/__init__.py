"""Persistence for LangGraph: a checkpointer, whose checkpoints belong to threads, and a store for long-term memory.

`astream` and `stream` stream a graph for `run.pipe`, and continue it in a run that is taken up. `copy_checkpoints` copies checkpoints
from other checkpointers.
"""

from .copying import copy_checkpoints
from .saver import ThreadlineSaver
from .store import ThreadlineStore
from .streaming import astream, stream

__all__ = ["ThreadlineSaver", "ThreadlineStore", "astream", "copy_checkpoints", "stream"]
