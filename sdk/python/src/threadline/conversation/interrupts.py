"""Interrupts: questions of agents that wait for an answer."""

from .._limits import MAX_ANSWERS, MAX_ID_BYTES, MAX_OPEN_INTERRUPT_BYTES, MAX_OPEN_INTERRUPTS
from .reading import read_interrupts
from .values import Members, is_list, is_object, same, size, utf8_bytes, word


class Interrupts:
    """The open interrupts.

    An interrupt is open from the RUN_FINISHED that requests it until the RUN_FINISHED of a run whose RUN_STARTED answers it
    in ``input.resume``. No other event settles it.
    """

    __slots__ = ("_answered", "open")

    def __init__(self, open_interrupts: list[Members]) -> None:
        #: The same list until it changes.
        self.open = open_interrupts
        # Ids that the active run answers. Ids of interrupts that are not open are ignored.
        self._answered: set[str] = set()

    def run_started(self, given: object) -> None:
        """Records the answers in the input of a started run, which take effect once the run has finished."""
        resume = given.get("resume") if is_object(given) else None
        answers = map(_answered, resume) if is_list(resume) else ()
        self._answered = {answer for answer in answers if answer is not None}

    def run_failed(self) -> None:
        """Discards the answers of a failed run."""
        self._answered = set()

    def run_finished(self, outcome: object) -> None:
        """Settles what the run has answered, and opens what it requests, unless that is open already."""
        total = 0
        left: list[Members] = []
        for interrupt in self.open:
            name = _id_of(interrupt)
            if name is None or utf8_bytes(name) > MAX_ID_BYTES or name in self._answered:
                continue
            total += size(interrupt)
            if total <= MAX_OPEN_INTERRUPT_BYTES:
                left.append(interrupt)
        now = left[:MAX_OPEN_INTERRUPTS]
        known = {_id_of(interrupt) for interrupt in now}
        for asked in read_interrupts(outcome):
            name = _id_of(asked)
            if name is None or name not in known:
                now.append(asked)
        del now[MAX_ANSWERS:]
        if not same(now, self.open):
            self.open = now
        self._answered = set()


def _id_of(interrupt: Members) -> str | None:
    found = interrupt.get("id")
    return found if isinstance(found, str) else None


def _answered(entry: object) -> str | None:
    """The id of the interrupt that an entry of ``resume`` answers."""
    if not is_object(entry) or entry.get("status") not in ("resolved", "cancelled"):
        return None
    found = entry.get("interruptId")
    return word(found) if isinstance(found, str) else None
