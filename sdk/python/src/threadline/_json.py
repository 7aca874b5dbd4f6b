"""JSON as it is sent: ASCII, so that lone surrogates leave as escapes; without NaN and infinities, which JSON lacks."""

from __future__ import annotations

import json
from typing import Any, Dict

from ._errors import ConfigError

JsonObject = Dict[str, Any]
"""A JSON object: an event, a message, a state."""

_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def to_json(value: object) -> str:
    """JSON text of a value; a `ConfigError` if it has none."""
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"this cannot be sent as JSON ({error})") from error


def is_json(value: object) -> bool:
    """True if a value has a JSON text."""
    try:
        to_json(value)
    except ConfigError:
        return False
    return True


def plain(value: object) -> JsonObject:
    """A JSON object of a mapping or of a model of pydantic, as AG-UI's SDK has them: by alias, without members that are None."""
    if isinstance(value, dict):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped = dump(mode="json", by_alias=True, exclude_none=True)
        if isinstance(dumped, dict):
            return dumped
    raise ConfigError(f"{type(value).__name__} is neither a dict nor a model of AG-UI")
