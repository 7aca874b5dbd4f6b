"""Ids that the package chooses, and ids in paths."""

import json
import secrets
from urllib.parse import quote

from ._errors import ConfigError

RESERVED_NAMES = "threadline."
"""Beginning of the names of CUSTOM events that the server alone writes."""


def new_id() -> str:
    """A unique random id."""
    return secrets.token_hex(16)


def segment(identifier: str) -> str:
    """An id as a segment of a path."""
    # Dots are relative segments, also in escaped form.
    if isinstance(identifier, str) and identifier not in ("", ".", ".."):
        try:
            return quote(identifier, safe="")
        except UnicodeEncodeError:
            pass  # half of a surrogate pair
    raise ConfigError(f"{json.dumps(identifier, default=repr)} cannot be used as an id")
