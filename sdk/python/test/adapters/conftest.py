from typing import Iterator

import pytest
from harness.server import Server


@pytest.fixture(scope="session")
def keyed() -> Iterator[Server]:
    """A server with an API key, as agent data requires outside of development mode."""
    server = Server("the-key-of-the-tests-of-adapters")
    yield server
    server.end()
