"""The connection's machine: all combinations of state, input and memory, which connection.json describes."""

from __future__ import annotations

import copy
import random
from itertools import product
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest
from threadline import _limits as limits
from threadline._closing import closing
from threadline._errors import RETRYABLE_STATUSES, ConnectionFailed, ProtocolError, ThreadlineError, problem_error
from threadline._follow import Follow, Frame
from threadline._items import Cursor
from threadline._machine import FAILING, INPUTS, STATES, TABLE, Draw, Effect, Input, Machine, State, new_machine, step

from model import CONNECTION, expected

LOST = ConnectionFailed("lost")
REFUSED = ProtocolError("refused")
DRAW = Draw(limits.PREFER_AGAIN, 0.5)


def state_of(name: str) -> State:
    if name == "waiting":
        return State(name, 0.1, LOST)
    return State(name, limits.OFFLINE_RETRY if name == "offline" else 0.0, REFUSED if name == "failed" else None)


def cases() -> Iterator[Tuple[Machine, Input]]:
    """Memories that differ in every condition of the moves, in every state, with every input."""
    for state, name in product(STATES, INPUTS):
        errors: List[Optional[ThreadlineError]] = [LOST, REFUSED] if name in FAILING else [None]
        members = product([True, False], [True, False], [0, 1], [0, 1, 2], [0.0, 1.0])
        for error, (online, renewed, strikes, transport, fell_back_at) in product(errors, members):
            yield Machine(state_of(state), 3, 3, renewed, online, transport, strikes, fell_back_at), Input(name, error)


CASES = [(machine, input, step(machine, input, DRAW)) for machine, input in cases()]

# Similar cases are apart: a difference is found soon.
SHUFFLED = random.sample(CASES, len(CASES))


def difference(description: Dict[str, Any]) -> Optional[str]:
    """A case in which the machine does something else than a description says."""
    for machine, input, told in SHUFFLED:
        wanted = expected(description, machine, input, DRAW)
        if told != wanted:
            return f"{machine}, {input}: {told} instead of {wanted}"
    return None


def test_the_machine_does_what_connection_json_says() -> None:
    assert difference(CONNECTION) is None
    assert tuple(CONNECTION["states"]) == STATES == tuple(TABLE)
    assert set(CONNECTION["events"]) == set(INPUTS)


def test_every_transition_and_every_rule_is_needed() -> None:
    for state, row in CONNECTION["transitions"].items():
        for event in row:
            changed = copy.deepcopy(CONNECTION)
            del changed["transitions"][state][event]
            assert difference(changed), f"{state}, {event}"
    for move, rules in CONNECTION["moves"].items():
        for at, rule in enumerate(rules):
            for part in rule:
                changed = copy.deepcopy(CONNECTION)
                del changed["moves"][move][at][part]
                assert difference(changed), f"{move}, rule {at}, {part}"


def test_limits_close_codes_and_final_errors_are_those_of_connection_json() -> None:
    numbers = CONNECTION["limits"]
    assert numbers == {
        "strikes": limits.STRIKES,
        "preferAgainMs": limits.PREFER_AGAIN * 1_000,
        "offlineRetryMs": limits.OFFLINE_RETRY * 1_000,
        "openTimeoutMs": limits.OPEN_TIMEOUT * 1_000,
        "missedHeartbeats": limits.MISSED_HEARTBEATS,
        "checkMs": limits.CHECK * 1_000,
        "lingerMs": limits.LINGER * 1_000,
    }
    backoff = CONNECTION["backoff"]
    assert (backoff["baseMs"], backoff["maxMs"]) == (limits.BACKOFF_BASE * 1_000, limits.BACKOFF_MAX * 1_000)
    assert backoff["requestedMaxMs"] == limits.RETRY_AFTER_MAX * 1_000
    codes = CONNECTION["errors"]["closeCodes"]

    def is_refused(code: int) -> bool:
        ranges = [str(one).split(" to ") for one in codes["refused"]]
        return any(int(ends[0]) <= code <= int(ends[-1]) for ends in ranges)

    for code in range(1_000, 5_000):
        name = "unauthorized" if code in codes["unauthorized"] else "refused" if is_refused(code) else "lost"
        assert closing(code, "").name == name, code
    assert list(RETRYABLE_STATUSES) == CONNECTION["errors"]["retryableStatuses"]
    for status in range(400, 600):
        assert problem_error({}, status).retryable == (status in RETRYABLE_STATUSES)


@pytest.mark.parametrize("what", ["final", "done", "ignored"])
def test_reasons_of_an_end(what: str) -> None:
    for reason in CONNECTION["errors"]["ended"][what]:
        follow = Follow(Cursor())
        follow.take(Frame("hello", {"epoch": "e", "tail": 0}))
        taken = follow.take(Frame("ended", {"reason": reason}))
        found = "final" if taken.error and not taken.error.retryable else "done" if taken.done else "ignored"
        assert found == what, reason


def test_any_sequence_of_inputs() -> None:
    """One connection at a time, every wait ends, jitter in range, and no effect after close."""
    seed = random.randrange(2**31)
    chances = random.Random(seed)
    for walk in range(100):
        machine = new_machine(1 + chances.randrange(3))
        connections = timers = 0
        now = 0.0
        for at in range(200):
            name = chances.choice(INPUTS)
            if name == "close" and at < 150:
                continue
            now += chances.random() * 60
            error = chances.choice([LOST, REFUSED]) if name in FAILING else None
            before, was_closed = machine, machine.state.name == "closed"
            machine, effects = step(machine, Input(name, error), Draw(now, chances.random()))
            where = f"seed {seed}, walk {walk}, input {at}: {before}, {name} -> {machine}, {effects}"
            done = [effect.do for effect in effects]
            assert not (was_closed and effects), where
            connections += done.count("connect") - done.count("disconnect")
            timers += done.count("wait") - done.count("stopTimer")
            assert connections == (machine.state.name in ("connecting", "open")), where
            assert timers == (machine.state.name in ("waiting", "offline")), where
            assert machine.transport < machine.transports, where
            for effect in effects:
                if effect.do == "wait" and effect.error:
                    assert 0 <= effect.wait <= min(limits.BACKOFF_MAX, limits.BACKOFF_BASE * 2 ** (machine.failures - 1)), where
        if machine.state.name != "closed":
            for name in ("online", "wanted", "timer", "authorized", "opened"):
                machine, _ = step(machine, Input(name), Draw(now, 0.0))
            assert machine.state.name == "open", f"seed {seed}, walk {walk}"


def test_delays_double_up_to_their_bound_and_progress_resets_them() -> None:
    machine = Machine(State("connecting"), 2)
    for bound in (0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0):
        machine, effects = step(machine, Input("lost", LOST), Draw(0.0, 1.0))
        assert Effect("wait", bound, LOST) in effects
        for name in ("timer", "authorized", "opened"):
            machine, _ = step(machine, Input(name), Draw(0.0, 1.0))
    machine, _ = step(machine, Input("progress"), Draw(0.0, 1.0))
    machine, effects = step(machine, Input("lost", LOST), Draw(0.0, 1.0))
    assert Effect("wait", 0.25, LOST) in effects
