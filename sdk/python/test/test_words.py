"""How a search of key-value entries finds words, as docs/agent-data.md describes it."""

from __future__ import annotations

from typing import Optional

import pytest
from harness.server import Server
from threadline import Threadline
from threadline._ids import new_id

WORDS = [
    # Query, text of an entry, and the score; None if the entry is not found.
    ("tea", "a STEAK", 1.0),
    ("running", "run", None),
    ("don't", "donut", 1.0),
    ("green-tea coffee", "tea, green", 2 / 3),
    ("tea TEA", "tea", 1.0),
    ("cafe", "café", None),
    ("cafe\u0301 bar", "cafe", 0.5),
    ("東京駅", "東京駅の北口", 1.0),
    ("東京駅", "東京の駅", None),
    ("東京 駅", "東京の駅", 1.0),
    ("駅", "東京の駅", 1.0),
    ("東京、大阪", "大阪", 0.5),
    ("हिन्दी", "दी", 0.5),
    ("น้ำ", "น", 0.5),
    ("7", "Parcel 7", 1.0),
    (" ,. ", "anything", None),
]


@pytest.mark.parametrize(("query", "text", "score"), WORDS)
def test_words_are_found_as_the_manual_says(server: Server, query: str, text: str, score: Optional[float]) -> None:
    with Threadline(server.url, user=f"user-{new_id()}") as client:
        client.kv.put(["a"], "k", {"deep": [{"in": text}]})
        client.kv.put(["a"], "other", {"tea": "-", "steps": [7, True, None]})
        found = [(one.key, one.score) for one in client.kv.search(query=query).items]
    # A query without words returns all entries.
    everything = not any(letter.isalnum() for letter in query)
    assert found == ([("k", None), ("other", None)] if everything else [] if score is None else [("k", score)])
