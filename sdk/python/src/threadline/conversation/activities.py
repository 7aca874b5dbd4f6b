"""Activities: structured progress that has a place among the messages."""

from .._limits import MAX_STATE_BYTES
from .drafts import Drafts
from .messages import Place
from .patch import Document, Purse, patch
from .reading import merge_metadata, metadata_of, owner_of
from .transcript import Transcript, owned
from .values import MISSING, Malformed, Members, is_object, json, word


class Activities:
    __slots__ = ("_copied", "_drafts", "_purse", "_transcript")

    def __init__(self, transcript: Transcript, drafts: Drafts, purse: Purse) -> None:
        self._transcript = transcript
        self._drafts = drafts
        self._purse = purse
        # Bytes copied by deltas.
        self._copied = 0

    def snapshot(self, event: Members) -> None:
        """An activity that replaces another one brings its own owner; metadata is merged in any case."""
        name, kind, content = word(event.get("messageId")), word(event.get("activityType")), json(event.get("content"))
        owner, metadata, replace = owner_of(event), metadata_of(event), event.get("replace", True)
        if not is_object(content) or not isinstance(replace, bool):
            raise Malformed
        messages = self._transcript.messages
        place = messages.find(name)
        if place is not None and place.message["role"] == "activity":
            message = messages.edit(place)
            if replace:
                message["content"], message["activityType"] = content, kind
                if owner is None:
                    message.pop("subagentRunId", None)
                else:
                    message["subagentRunId"] = owner
            return merge_metadata(message, metadata)
        if place is not None and not replace:
            return
        message = owned({"id": name, "role": "activity", "content": content, "activityType": kind}, owner)
        merge_metadata(message, metadata)
        if place is None:
            messages.push(message)
        else:
            messages.replace(place, message)

    def delta(self, event: Members) -> None:
        name, kind, metadata = word(event.get("messageId")), word(event.get("activityType")), metadata_of(event)
        messages = self._transcript.messages
        place = self._transcript.find(name)
        if place is None or place.message["role"] != "activity":
            self._purse.skipped += 1
            return
        # Metadata is merged even if the patch fails.
        if metadata is not None:
            merge_metadata(messages.edit(place), metadata)
        document = _document(place)
        operations = None if document is None else event.get("patch")
        if document is None:
            document = Document(None)
        copied = patch(document, operations, self._drafts, self._purse, MAX_STATE_BYTES - self._copied)
        if document.value is not place.message.get("content", document.value):
            # A patch that fails may leave an equal copy.
            messages.edit(place)["content"] = document.value
        place.measured = (document.value, document.size)
        if copied is not None:
            self._copied += copied
            messages.edit(place)["activityType"] = kind


def _document(place: Place) -> Document | None:
    """The content of an activity; ``None`` if there is none."""
    content = place.message.get("content", MISSING)
    if content is MISSING:
        return None
    known = place.measured
    return Document(content, known[1] if known is not None and known[0] is content else None)
