"""Lines are cut at LF alone, wherever the network cuts."""

from __future__ import annotations

import json
from typing import List

import pytest
from threadline._errors import ProtocolError
from threadline._lines import EventParser, Lines, StreamEvent, parse_object

# Separators for `str.splitlines`, characters of two, three and four bytes, and half of a surrogate pair as an escape.
TEXT = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\rj é 漢字 🎈"
DATA = [json.dumps({"delta": TEXT, "n": n}, ensure_ascii=False).replace("\r", "\\r") for n in range(3)]


def test_lines_at_every_boundary_of_chunks() -> None:
    whole = "\n".join(DATA).encode() + b"\n"
    for at in range(len(whole) + 1):
        lines = Lines()
        assert lines.feed(whole[:at]) + lines.feed(whole[at:]) == [one.encode() for one in DATA]


def test_a_line_without_an_end_is_no_line() -> None:
    lines = Lines()
    assert lines.feed(b'{"seq":1}\n{"seq"') == [b'{"seq":1}']
    assert lines.feed(b":2}") == []
    assert lines.feed(b"\n\n") == [b'{"seq":2}', b""]


STREAM = (
    b"retry: 1500\n\nevent: hello\ndata: {}\n\n: heartbeat\n\n"
    + "".join(f"id: e:{n}\ndata: {one}\n\n" for n, one in enumerate(DATA)).encode()
    + b"event: caught_up\r\ndata: {\r\ndata:}\r\n\r\nevent: nothing\n\n"
)
EVENTS = [
    StreamEvent("hello", b"{}"),
    *(StreamEvent("message", one.encode()) for one in DATA),
    StreamEvent("caught_up", b"{\n}"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, 10_000])
def test_events_of_a_stream_in_chunks_of_any_size(size: int) -> None:
    parser = EventParser()
    events: List[StreamEvent] = []
    for at in range(0, len(STREAM), size):
        events += parser.feed(STREAM[at : at + size])
    assert events == EVENTS
    assert (parser.retry_after, parser.comments) == (1.5, 1)
    assert [json.loads(event.data)["delta"] for event in events[1:4]] == [TEXT] * 3


def test_events_at_every_boundary_of_chunks() -> None:
    for at in range(len(STREAM) + 1):
        parser = EventParser()
        assert parser.feed(STREAM[:at]) + parser.feed(STREAM[at:]) == EVENTS


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"{", b"\xff"])
def test_a_frame_is_an_object(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_object(data)
