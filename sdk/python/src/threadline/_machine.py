"""The life of a connection as pure data: which state follows an input, and which effects that has.

Without clock, randomness or network: `step` receives the time and a random number. proto/connection.json describes the
machine, and a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Mapping, Optional, Tuple

from ._errors import ThreadlineError
from ._limits import BACKOFF_BASE, BACKOFF_MAX, OFFLINE_RETRY, PREFER_AGAIN, RETRY_AFTER_MAX, STRIKES

STATES = ("idle", "authorizing", "connecting", "open", "waiting", "offline", "failed", "closed")
FAILING = ("lost", "silent", "blocked", "unsupported", "unauthorized", "refused")
"""Inputs that have an error."""
INPUTS = (
    "wanted", "unwanted", "authorized", "opened", "progress", "renewed", "offline", "online", "wake", "timer", "close", *FAILING
)  # fmt: skip


@dataclass(frozen=True)
class State:
    name: str
    wait: float = 0.0
    """Seconds until the next attempt, of `waiting` and `offline`."""
    error: Optional[ThreadlineError] = None
    """The reason, of `waiting` and `failed`."""


@dataclass(frozen=True)
class Input:
    name: str
    error: Optional[ThreadlineError] = None


@dataclass(frozen=True)
class Machine:
    state: State
    transports: int
    """Number of transports."""
    failures: int = 0
    renewed: bool = False
    online: bool = True
    transport: int = 0
    strikes: int = 0
    fell_back_at: float = 0.0


@dataclass(frozen=True)
class Effect:
    do: str
    wait: float = 0.0
    error: Optional[ThreadlineError] = None


@dataclass(frozen=True)
class Draw:
    """The time in seconds, and a random number from 0 to 1."""

    now: float
    chance: float


def new_machine(transports: int) -> Machine:
    """A connection without subscriptions."""
    return Machine(State("idle"), transports)


def backoff(failures: int, chance: float, retry_after: Optional[float] = None) -> float:
    """Seconds before the attempt after `failures` consecutive failures: what the server requests, and a random share of a bound."""
    bound = min(BACKOFF_MAX, BACKOFF_BASE * 2.0 ** min(failures - 1, 20))
    return min(max(retry_after or 0.0, 0.0), RETRY_AFTER_MAX) + bound * chance


Move = Callable[[Machine, Input, Draw], Machine]


def _to(name: str) -> Move:
    return lambda machine, _, __: replace(machine, state=State(name))


def _note(online: bool) -> Move:
    return lambda machine, _, __: replace(machine, online=online)


def _prefer(machine: Machine) -> Machine:
    """Selects the best transport, which is abandoned after a single failure if it is still blocked."""
    return replace(machine, transport=0, strikes=STRIKES - 1) if machine.transport > 0 else machine


def _begin(machine: Machine, _: Input, draw: Draw) -> Machine:
    again = machine.transport > 0 and draw.now - machine.fell_back_at >= PREFER_AGAIN
    return replace(_prefer(machine) if again else machine, state=State("authorizing"))


def _want(machine: Machine, input: Input, draw: Draw) -> Machine:
    fresh = replace(machine, failures=0, renewed=False)
    return (_begin if machine.online else _away)(fresh, input, draw)


def _away(machine: Machine, _: Input, __: Draw) -> Machine:
    return replace(machine, online=False, state=State("offline", OFFLINE_RETRY))


def _back(machine: Machine, _: Input, __: Draw) -> Machine:
    return replace(_prefer(machine), online=True, state=State("authorizing"))


def _open(machine: Machine, _: Input, __: Draw) -> Machine:
    return replace(machine, online=True, state=State("open"))


def _settle(machine: Machine, _: Input, __: Draw) -> Machine:
    if machine.failures == 0 and not machine.renewed and machine.strikes == 0:
        return machine
    return replace(machine, failures=0, renewed=False, strikes=0)


def _fail(machine: Machine, input: Input, _: Draw) -> Machine:
    return replace(machine, state=State("failed", error=input.error))


def _retry(machine: Machine, input: Input, draw: Draw) -> Machine:
    if not machine.online:
        return _away(machine, input, draw)
    failures = machine.failures + 1
    wait = backoff(failures, draw.chance, input.error.retry_after if input.error else None)
    return replace(machine, failures=failures, state=State("waiting", wait, input.error))


def _fall_back(machine: Machine, input: Input, draw: Draw) -> Machine:
    transport = machine.transport + 1
    if transport >= machine.transports:
        return (_retry if input.error and input.error.retryable else _fail)(machine, input, draw)
    return replace(machine, transport=transport, strikes=0, fell_back_at=draw.now, state=State("connecting"))


def _strike(machine: Machine, input: Input, draw: Draw) -> Machine:
    strikes = machine.strikes + 1
    return (_retry if strikes < STRIKES else _fall_back)(replace(machine, strikes=strikes), input, draw)


def _renew(machine: Machine, input: Input, draw: Draw) -> Machine:
    """Renews the credential once per failure: a refusal of one that was just renewed is final."""
    return _fail(machine, input, draw) if machine.renewed else _begin(replace(machine, renewed=True), input, draw)


_STILL: Dict[str, Move] = {"unwanted": _to("idle"), "offline": _away, "online": _note(True), "close": _to("closed")}
_CONNECTED: Dict[str, Move] = {
    **_STILL,
    "lost": _retry,
    "silent": _retry,
    "blocked": _strike,
    "unsupported": _fall_back,
    "unauthorized": _renew,
    "refused": _fail,
}
_RESTING: Dict[str, Move] = {"wanted": _want, "offline": _note(False), "online": _note(True), "close": _to("closed")}

TABLE: Mapping[str, Mapping[str, Move]] = {
    "idle": _RESTING,
    "authorizing": {**_STILL, "authorized": _to("connecting"), "lost": _retry, "refused": _fail},
    "connecting": {**_CONNECTED, "opened": _open},
    "open": {**_CONNECTED, "progress": _settle, "renewed": _to("connecting")},
    "waiting": {**_STILL, "timer": _begin, "wake": _begin, "online": _back},
    "offline": {"unwanted": _to("idle"), "timer": _begin, "online": _back, "close": _to("closed")},
    "failed": _RESTING,
    "closed": {},
}
"""Effect of an input in each state. An input that a state does not name changes nothing."""


def step(machine: Machine, input: Input, draw: Draw) -> Tuple[Machine, List[Effect]]:
    """The next state, and the effects in the order of their execution."""
    move = TABLE[machine.state.name].get(input.name)
    following = move(machine, input, draw) if move else machine
    return following, _effects(machine.state, following.state, input)


def _effects(before: State, state: State, input: Input) -> List[Effect]:
    if state is before:
        return [Effect("check")] if state.name == "open" and input.name == "wake" else []
    effects: List[Effect] = []
    if before.name in ("connecting", "open") and state.name != "open":
        effects.append(Effect("disconnect"))
    if before.name in ("waiting", "offline"):
        effects.append(Effect("stopTimer"))
    entered = {"authorizing": "authorize", "connecting": "connect", "waiting": "wait", "offline": "wait", "failed": "fail"}
    if state.name in entered:
        effects.append(Effect(entered[state.name], state.wait, state.error))
    return effects
