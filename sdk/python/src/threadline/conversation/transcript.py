"""The messages, and the effects of text and tool call events on them."""

import re
from typing import Final

from .chunks import Chunk, Kind, Lanes, Said
from .drafts import Drafts
from .messages import Called, MessageList, Place, id_of
from .reading import merge_metadata, metadata_of, owner_of, parent_of, read_messages, text_role
from .snapshot import merge
from .values import MISSING, Malformed, Members, is_list, is_object, json, optional_word, required, word

#: Events of streams, with the kind and the part.
_STREAMED: Final[dict[str, tuple[Kind, str]]] = {
    **{f"TEXT_MESSAGE_{part}": ("TEXT", part) for part in ("START", "CONTENT", "END", "CHUNK")},
    **{f"REASONING_MESSAGE_{part}": ("REASONING", part) for part in ("START", "CONTENT", "END", "CHUNK")},
    **{f"TOOL_CALL_{part}": ("TOOL", part) for part in ("START", "ARGS", "END", "CHUNK")},
}
#: Events that close the open chunks of their lane …
_CLOSING = frozenset(
    (
        *(kind for kind in _STREAMED if not kind.endswith("_CHUNK")),
        *(f"THINKING_TEXT_MESSAGE_{part}" for part in ("START", "CONTENT", "END")),
        *("REASONING_START", "REASONING_END", "THINKING_START", "THINKING_END"),
        *("CUSTOM", "STEP_STARTED", "STEP_FINISHED", "STATE_SNAPSHOT", "STATE_DELTA", "TOOL_CALL_RESULT"),
    )
)
#: … and of all lanes.
_CLOSING_ALL = frozenset(("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "MESSAGES_SNAPSHOT"))
#: Ends of subagents, which close the lane of theirs.
_CLOSING_OWNER = frozenset(("SUBAGENT_FINISHED", "SUBAGENT_ERROR"))

_THINKING = "THINKING_TEXT_MESSAGE_"
_COUNTED = re.compile(r"thinking-([0-9]{1,15})")


class Transcript:
    __slots__ = ("_drafts", "_has_more", "_lanes", "_thinking", "_thoughts", "is_incomplete", "messages")

    def __init__(self, messages: list[Members], has_more: bool, drafts: Drafts) -> None:
        """Creates a transcript; ``has_more``: there are older messages that are not among these."""
        self.messages = MessageList(messages, drafts)
        #: True if an event refers to a message that may be among the older ones.
        self.is_incomplete = False
        self._drafts = drafts
        self._has_more = has_more
        self._lanes = Lanes()
        self._thinking: str | None = None
        counted = (_COUNTED.fullmatch(id_of(message)) for message in messages)
        self._thoughts = max((int(found[1]) for found in counted if found), default=0)

    def prepend(self, older: list[Members], has_more: bool) -> None:
        """Inserts older messages before the present ones; ``has_more``: there are still older ones."""
        self._has_more = has_more
        self._replace(older + self.messages.read())

    def apply(self, kind: str, event: Members) -> None:
        """Applies an event if it affects messages, and closes the chunks that it ends."""
        if not self._lanes.is_empty:
            self._close_lanes(kind, event)
        streamed = _STREAMED.get(kind)
        if streamed is not None:
            self._stream(*streamed, event)
        elif kind == "TOOL_CALL_RESULT":
            self._result(event)
        elif kind == "REASONING_ENCRYPTED_VALUE":
            self._encrypted(event)
        elif kind == "MESSAGES_SNAPSHOT":
            self._snapshot(event)
        elif kind == "RUN_STARTED":
            self._begin(event.get("input"))
        elif kind.startswith(_THINKING):
            self._think(kind[len(_THINKING) :], event)

    def find(self, message_id: str) -> Place | None:
        """The message to which an event refers."""
        place = self.messages.find(message_id)
        if place is None:
            self._missed()
        return place

    def _find_call(self, call_id: str) -> Called | None:
        called = self.messages.find_call(call_id)
        if called is None:
            self._missed()
        return called

    def _missed(self) -> None:
        # The target of an event may be among the older messages, which are not loaded.
        self.is_incomplete = self.is_incomplete or self._has_more

    def _close_lanes(self, kind: str, event: Members) -> None:
        """Closes open chunks: an event that is no chunk closes those of its lane, an event of the run those of all lanes."""
        if kind in _CLOSING_ALL:
            self._lanes.close_all()
        elif kind in _CLOSING:
            self._lanes.close(owner_of(event))
        elif kind in _CLOSING_OWNER:
            owner = owner_of(event)
            if owner is not None:
                self._lanes.close(owner)

    def _stream(self, kind: Kind, part: str, event: Members) -> None:
        name = optional_word(event.get("toolCallId" if kind == "TOOL" else "messageId", MISSING))
        metadata = metadata_of(event)
        if part == "CHUNK":
            return self._chunk(kind, name, event, metadata)
        if part == "START":
            said = _said(kind, event)
            if kind == "TOOL":
                required(said[0])
            return self._open(kind, required(name), said, owner_of(event), metadata)
        delta = None if part == "END" else required(event.get("delta"))
        self._push(kind, required(name), delta, metadata)

    def _chunk(self, kind: Kind, name: str | None, event: Members, metadata: Members | None) -> None:
        said, owner = _said(kind, event), owner_of(event)
        delta = required(event["delta"]) if "delta" in event else None
        step = self._lanes.take(Chunk(kind, name, owner, said))
        if step is None:
            raise Malformed
        if step.is_opened:
            self._open(kind, step.id, said, owner, metadata)
        # A provider's payload, and the metadata of a continuing chunk, require a delta, which may be empty.
        if delta is None and event.get("rawEvent") is None and (step.is_opened or metadata is None):
            return
        self._push(kind, step.id, delta or "", metadata)

    def _open(self, kind: Kind, name: str, said: Said, owner: str | None, metadata: Members | None) -> None:
        if kind == "TOOL":
            return self._open_call(name, said, owner, metadata)
        if self.messages.find(name) is None:
            role, author = said
            message: Members = {"id": name, "role": role or "assistant", "content": ""}
            if author is not None:
                message["name"] = author
            self.messages.push(owned(message, owner))
        self._push(kind, name, None, metadata)

    def _open_call(self, name: str, said: Said, owner: str | None, metadata: Members | None) -> None:
        tool, parent = said
        known = self.messages.find_call(name)
        call: Members
        if known is not None:
            # A call that is started again, by a replay, adds no second one.
            call = self.messages.edit_call(known)
            function = call["function"]
            assert is_object(function)
            function["name"] = tool or ""
            return merge_metadata(call, metadata)
        call = {"id": name, "type": "function", "function": {"name": tool or "", "arguments": ""}}
        merge_metadata(call, metadata)
        # An empty id counts as absent.
        found = self.messages.find(parent) if parent else None
        if found is not None and found.message["role"] == "assistant":
            return self.messages.push_call(found, call)
        message: Members = {"id": parent if parent and found is None else name, "role": "assistant", "toolCalls": [call]}
        self.messages.push(message if self.messages.find(id_of(message)) else owned(message, owner))

    def _push(self, kind: Kind, name: str, delta: str | None, metadata: Members | None) -> None:
        """Appends to the text of a message or to the arguments of a call."""
        if delta is None and metadata is None:
            return
        if kind == "TOOL":
            called = self._find_call(name)
            if called is None:
                return
            if delta is not None:
                self.messages.append_arguments(called, delta)
            if metadata is not None:
                merge_metadata(self.messages.edit_call(called), metadata)
            return
        place = self._text(name)
        if place is None:
            return
        if delta is not None:
            self.messages.append_content(place, delta)
        if metadata is not None:
            merge_metadata(self.messages.edit(place), metadata)

    def _result(self, event: Members) -> None:
        name, call, content = word(event.get("messageId")), word(event.get("toolCallId")), event.get("content")
        if not isinstance(content, str):
            content = json(content)
            if not is_list(content):
                raise Malformed
        message = owned({"id": name, "role": "tool", "content": content, "toolCallId": call}, owner_of(event))
        merge_metadata(message, metadata_of(event))
        caller = self._find_call(call)
        if caller is None:
            self.messages.push(message)
        else:
            self.messages.push_result(caller[0], message)

    def _encrypted(self, event: Members) -> None:
        subtype, name, value = (word(event.get(member)) for member in ("subtype", "entityId", "encryptedValue"))
        if subtype == "tool-call":
            called = self._find_call(name)
            if called is not None:
                self.messages.edit_call(called)["encryptedValue"] = value
        else:
            place = self._text(name)
            if place is not None:
                self.messages.edit(place)["encryptedValue"] = value

    def _think(self, part: str, event: Members) -> None:
        """THINKING_* events are REASONING_* events of older protocols, without ids."""
        if part not in ("START", "CONTENT", "END"):
            return
        metadata = metadata_of(event)
        if part == "START":
            owner = owner_of(event)
            self._thoughts += 1
            while self.messages.find(f"thinking-{self._thoughts}") is not None:
                self._thoughts += 1
            self._thinking = f"thinking-{self._thoughts}"
            return self._open("REASONING", self._thinking, ("reasoning", None), owner, metadata)
        delta = required(event.get("delta")) if part == "CONTENT" else None
        if self._thinking is not None:
            self._push("REASONING", self._thinking, delta, metadata)
        if part == "END":
            self._thinking = None

    def _snapshot(self, event: Members) -> None:
        messages, metadata = event.get("messages"), metadata_of(event)
        if not is_list(messages):
            raise Malformed
        self._replace(merge(self.messages.read(), read_messages(messages), metadata))
        self._missed()

    def _begin(self, given: object) -> None:
        """Adds the messages in the input of a run that are not known yet."""
        self._thinking = None
        is_new = False
        for message in read_messages(given.get("messages") if is_object(given) else None):
            if self.messages.find(id_of(message)) is None:
                self.messages.push(message)
                is_new = True
            elif is_new:
                # An unknown message before a known one is an old one.
                self._missed()

    def _replace(self, messages: list[Members]) -> None:
        self.messages = MessageList(messages, self._drafts, self.messages.read())

    def _text(self, name: str) -> Place | None:
        """A message for a change of its text. Activities have no text: such events are ignored completely."""
        place = self.find(name)
        return None if place is None or place.message["role"] == "activity" else place


def _said(kind: Kind, event: Members) -> Said:
    if kind == "TEXT":
        return text_role(event), optional_word(event.get("name", MISSING))
    if kind == "TOOL":
        return optional_word(event.get("toolCallName", MISSING)), parent_of(event)
    return "reasoning", None


def owned(message: Members, owner: str | None) -> Members:
    """The message, attributed to a subagent or to the parent agent."""
    if owner is not None:
        message["subagentRunId"] = owner
    return message
