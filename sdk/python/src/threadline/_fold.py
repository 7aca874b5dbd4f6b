"""Folds streams of AG-UI events: ``python -m threadline._fold``.

Reads one stream a line, ``{"events": […], "start": {…}}``, and writes for each a line with all that the fold shows. Tests
compare it with the server's fold.
"""

import json
import math
import sys
from typing import Any

from threadline.conversation import Conversation
from threadline.conversation.values import LONE_HALF

#: Reads are taken after every so many events, as a page takes them.
_READ_EVERY = 5
#: Digits beyond which an integer is beyond a double, and which Python would not read at all.
_MAX_DIGITS = 310


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


def _fold(given: dict[str, Any]) -> dict[str, Any]:
    start = given.get("start", {})
    conversation = Conversation(**start)
    # Results of reads must not change, and must not change what follows.
    reads: list[tuple[Any, str]] = []
    for at, event in enumerate(given["events"]):
        conversation.apply([event])
        if at % _READ_EVERY == 0:
            reads += [(seen, json.dumps(seen)) for seen in (conversation.messages, conversation.state)]
    is_unchanged = all(json.dumps(seen) == text for seen, text in reads)
    return {
        "messages": conversation.messages,
        "state": conversation.state,
        "interrupts": conversation.interrupts,
        "error": None if is_unchanged else "what was read has changed",
        "seen": len(given["events"]),
        "pending": conversation.pending_tool_call_ids,
        "skipped": conversation.skipped_deltas,
        "skippedNumbers": conversation.skipped_numbers,
    }


def main() -> None:
    for line in sys.stdin.buffer:
        folded = _fold(json.loads(line, parse_int=_integer))
        text = json.dumps(folded, allow_nan=False, ensure_ascii=False)
        # All other characters are written as they are.
        escaped = LONE_HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
        sys.stdout.buffer.write(escaped.encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
