from collections.abc import Iterator

import pytest

from .server import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started
