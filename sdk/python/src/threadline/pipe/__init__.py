"""Conversion of streams of other packages to AG-UI events. `run.pipe` does it for runs; :func:`mapper_for` is for other uses.

None of these packages is imported: the shape of an item tells its kind.
"""

from .._json import JsonObject
from .errors import StreamFailed
from .mapper import Mapper
from .shape import mapper_for

__all__ = ["JsonObject", "Mapper", "StreamFailed", "mapper_for"]
