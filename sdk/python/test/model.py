"""An interpreter of proto/connection.json, written from the file and not from the machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from threadline._machine import Draw, Effect, Input, Machine, State

CONNECTION: Dict[str, Any] = json.loads((Path(__file__).resolve().parents[3] / "proto/connection.json").read_text())
# Names of the description, and of the members of the machine.
MEMBERS = {
    "failures": "failures",
    "renewed": "renewed",
    "online": "online",
    "transport": "transport",
    "strikes": "strikes",
    "fellBackAt": "fell_back_at",
}


def expected(description: Dict[str, Any], before: Machine, input: Input, draw: Draw) -> Tuple[Machine, List[Effect]]:
    """What the description says of an input: the machine after it, and the effects."""
    limits = description["limits"]
    memory: Dict[str, Any] = {name: getattr(before, own) for name, own in MEMBERS.items()}
    state = before.state
    conditions: Dict[str, Callable[[], bool]] = {
        "online": lambda: memory["online"] is True,
        "renewed": lambda: memory["renewed"] is True,
        "best": lambda: memory["transport"] == 0,
        "last": lambda: memory["transport"] == before.transports - 1,
        "lastStrike": lambda: memory["strikes"] + 1 >= limits["strikes"],
        "preferAgain": lambda: memory["transport"] > 0 and draw.now - memory["fellBackAt"] >= limits["preferAgainMs"] / 1_000,
        "retryable": lambda: bool(input.error and input.error.retryable),
    }

    def value_of(name: str, value: Any) -> Any:
        words: Dict[str, Callable[[], Any]] = {
            "+1": lambda: memory[name] + 1,
            "limit - 1": lambda: limits["strikes"] - 1,
            "now": lambda: draw.now,
        }
        return words[value]() if isinstance(value, str) else value

    def wait_of(wait: str) -> float:
        if wait != "backoff":
            return float(limits[wait]) / 1_000
        numbers = description["backoff"]
        requested = min((input.error.retry_after if input.error else None) or 0, numbers["requestedMaxMs"] / 1_000)
        bound = min(numbers["maxMs"], numbers["baseMs"] * 2 ** (memory["failures"] - 1)) / 1_000
        return float(requested + draw.chance * bound)

    move: Optional[str] = description["transitions"][before.state.name].get(input.name)
    while move is not None:
        for rule in description["moves"][move]:
            if all(conditions[name]() == it for name, it in rule.get("when", {}).items()):
                break
        else:
            break
        for name, value in rule.get("set", {}).items():
            memory[name] = value_of(name, value)
        if "to" in rule:
            error = input.error if rule["to"] in ("waiting", "failed") else None
            state = State(rule["to"], wait_of(rule["wait"]) if "wait" in rule else 0.0, error)
        move = rule.get("then")

    effects: List[Effect] = []
    told = description["effects"]
    if state is before.state:
        stay = told["stay"]
        if stay["state"] == state.name and stay["event"] == input.name:
            effects.append(Effect(stay["do"]))
    else:
        left, keep = told["leave"].get(before.state.name), told["keep"]
        kept = keep["from"] == before.state.name and keep["to"] == state.name and keep["not"] == left
        if left is not None and not kept:
            effects.append(Effect(left))
        if state.name in told["enter"]:
            effects.append(Effect(told["enter"][state.name], state.wait, state.error))
    members = {own: memory[name] for name, own in MEMBERS.items()}
    return replace(before, state=state, **members), effects
