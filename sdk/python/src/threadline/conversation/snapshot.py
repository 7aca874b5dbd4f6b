"""The messages after a MESSAGES_SNAPSHOT."""

from collections.abc import Callable

from .messages import id_of
from .values import Members, is_list, is_object, same


def _authority(metadata: Members | None) -> Callable[[object], bool] | None:
    """The activity types that a snapshot owns, so that activities it omits are removed; None if it declares none."""
    if metadata is None or "@ag-ui/client" not in metadata:
        return None
    said = metadata["@ag-ui/client"]
    # An invalid declaration owns nothing.
    if not is_object(said):
        return lambda kind: False
    if "authoritativeActivityTypes" not in said:
        return None
    kinds = said["authoritativeActivityTypes"]
    if kinds is None:
        return lambda kind: True
    owned = kinds if is_list(kinds) and all(isinstance(kind, str) for kind in kinds) else []
    return lambda kind: isinstance(kind, str) and kind in owned


def merge(old: list[Members], repeated: list[Members], metadata: Members | None) -> list[Members]:
    """Repeated messages keep their places, and new ones follow.

    Activities and reasoning that the snapshot omits are kept, unless it contains some of the same kind (or declares that it
    owns them), since many agents do not keep them. A message that is repeated without a change stays the same object.
    """
    owns = _authority(metadata)
    roles = {message["role"] for message in repeated}

    def is_kept(message: Members) -> bool:
        if message["role"] == "activity":
            return not (owns(message.get("activityType")) if owns else "activity" in roles)
        return message["role"] == "reasoning" and "reasoning" not in roles

    # The last message with an id counts.
    by_id = {id_of(message): message for message in repeated}
    merged: list[Members] = []
    for message in old:
        now = by_id.get(id_of(message))
        if now is not None:
            merged.append(message if same(message, now) else now)
        elif is_kept(message):
            merged.append(message)
    known = {id_of(message) for message in merged}
    return merged + [message for message in repeated if id_of(message) not in known]
