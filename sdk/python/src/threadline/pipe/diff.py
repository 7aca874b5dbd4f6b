"""The JSON Patch (RFC 6902) from one value to another."""

from .._json import JsonObject


def diff(old: object, new: object, path: str = "") -> list[JsonObject]:
    """Operations by which ``old`` becomes ``new``, of members and of the ends of lists."""
    if isinstance(old, dict) and isinstance(new, dict):
        removed = [{"op": "remove", "path": f"{path}/{_escape(name)}"} for name in old if name not in new]
        changed: list[JsonObject] = []
        for name, value in new.items():
            below = f"{path}/{_escape(name)}"
            changed += diff(old[name], value, below) if name in old else [{"op": "add", "path": below, "value": value}]
        return removed + changed
    if isinstance(old, list) and isinstance(new, list) and old and _is_same(old, new[: len(old)]):
        return [{"op": "add", "path": f"{path}/-", "value": value} for value in new[len(old) :]]
    return [] if _is_same(old, new) else [{"op": "replace", "path": path, "value": new}]


def _is_same(old: object, new: object) -> bool:
    """Equality without True for 1, which Python has."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_is_same(value, new[name]) for name, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_is_same, old, new))
    return isinstance(old, bool) == isinstance(new, bool) and old == new


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
