"""Messages, state and interrupts, folded from the events of a thread."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from .._json import JsonObject
from .._limits import PATCH_WORK_PER_BYTE
from .activities import Activities
from .drafts import Drafts
from .interrupts import Interrupts
from .patch import Document, Purse, patch
from .reading import unreadable_numbers
from .transcript import Transcript
from .values import MISSING, Malformed, Members, is_object, json, required, same, size

#: Events of state and activities, which add to the work budget of patches.
_EARNING: Final = frozenset(("STATE_SNAPSHOT", "STATE_DELTA", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"))


class Conversation:
    """Folds the events of a thread into messages, state and interrupts, exactly as the server does.

    The same events from the same start produce the results of ``GET …/messages`` and ``GET …/state``. Malformed events are
    skipped. The class does no I/O.

    Returned values must not be changed, and the same object is returned until it changes. Objects of applied events become
    part of the result and must not be changed either. Reading ``messages`` copies the list once if it has changed, while
    applying an event does not: apply events in batches, and read in between.

    Integers are exact, however large, while the server writes those of more than 64 bits as doubles in some places. A number
    beyond a double (``1e400``) reads as ``None``, and is counted.

    Two counters start with the fold and not with the first event of the thread: the names of THINKING_* events, which have no
    ids (``thinking-1``, …), and the work budget of patches.
    """

    __slots__ = ("_activities", "_drafts", "_interrupts", "_purse", "_skipped_numbers", "_state", "_transcript")

    def __init__(
        self,
        *,
        messages: Iterable[JsonObject] = (),
        has_more: bool = False,
        state: Any = MISSING,
        interrupts: Iterable[JsonObject] = (),
    ) -> None:
        """Begins at a point between two runs: with the messages, the state (``{}`` if left out) and the open interrupts that
        the server shows there. ``has_more``: there are older messages, which are not among these.
        """
        self._drafts = Drafts()
        self._purse = Purse()
        self._transcript = Transcript(cast("list[Members]", list(messages)), has_more, self._drafts)
        self._activities = Activities(self._transcript, self._drafts, self._purse)
        self._state = Document({} if state is MISSING else state)
        self._interrupts = Interrupts(cast("list[Members]", list(interrupts)))
        self._skipped_numbers = 0

    @property
    def messages(self) -> Sequence[JsonObject]:
        """The messages of AG-UI, in order."""
        return self._transcript.messages.read()

    @property
    def state(self) -> Any:
        """The result of STATE_SNAPSHOT and STATE_DELTA; ``{}`` at first."""
        self._drafts.seal()
        return self._state.value

    @property
    def interrupts(self) -> Sequence[JsonObject]:
        """The open interrupts. An interrupt is settled when a run that answers it in its ``resume`` has finished."""
        return self._interrupts.open

    @property
    def pending_tool_call_ids(self) -> Sequence[str]:
        """Ids of the tool calls without a result, in the order of the messages."""
        return self._transcript.messages.pending_calls()

    @property
    def skipped_deltas(self) -> int:
        """Number of STATE_DELTA and ACTIVITY_DELTA events that could not be applied. Such an event has no effect at all."""
        return self._purse.skipped

    @property
    def skipped_numbers(self) -> int:
        """Number of numbers that are beyond a double. Each of them reads as ``None``; the log has the original text."""
        return self._skipped_numbers

    @property
    def is_incomplete(self) -> bool:
        """True if an event refers to a message that may be among the older ones, which are not loaded.

        In that case, begin again with all messages.
        """
        return self._transcript.is_incomplete

    def apply(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Applies the next events."""
        for event in events:
            if not is_object(event):
                continue
            try:
                kind = required(event.get("type"))
                self._apply(kind, event)
            except Malformed:
                continue
            self._skipped_numbers += unreadable_numbers(kind, event)

    def prepend(self, older: Iterable[JsonObject], has_more: bool = False) -> None:
        """Inserts older messages before the present ones; ``has_more``: there are still older ones."""
        self._transcript.prepend(cast("list[Members]", list(older)), has_more)

    def _apply(self, kind: str, event: Members) -> None:
        self._transcript.apply(kind, event)
        if kind in _EARNING:
            self._change(kind, event)
            # Each such event adds to the work budget of patches, so that all of their work is linear in the log.
            self._purse.work += size(event) * PATCH_WORK_PER_BYTE
        elif kind == "RUN_STARTED":
            self._interrupts.run_started(event.get("input"))
        elif kind == "RUN_FINISHED":
            self._interrupts.run_finished(event.get("outcome"))
        elif kind == "RUN_ERROR":
            self._interrupts.run_failed()

    def _change(self, kind: str, event: Members) -> None:
        if kind == "STATE_SNAPSHOT":
            if "snapshot" not in event:
                raise Malformed
            state = json(event["snapshot"])
            if not same(state, self._state.value):
                self._state = Document(state)
        elif kind == "STATE_DELTA":
            patch(self._state, event.get("delta"), self._drafts, self._purse)
        elif kind == "ACTIVITY_SNAPSHOT":
            self._activities.snapshot(event)
        else:
            self._activities.delta(event)
