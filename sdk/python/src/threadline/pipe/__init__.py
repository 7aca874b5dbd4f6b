"""Streams of other packages as AG-UI's events. See :func:`mapper_for`.

None of these packages is imported: the shape of an item tells its kind.
"""

from .._json import JsonObject
from .errors import StreamFailed
from .mapper import Mapper
from .shape import mapper_for

__all__ = ["JsonObject", "Mapper", "StreamFailed", "mapper_for"]
