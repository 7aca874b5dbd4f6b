"""Streams of other packages as AG-UI's events. See :func:`mapper_for`.

Nothing of these packages is imported: items are known by their shapes.
"""

from .._json import JsonObject
from .errors import StreamFailed

from .mapper import Mapper
from .shape import mapper_for

__all__ = ["JsonObject", "Mapper", "StreamFailed", "mapper_for"]
