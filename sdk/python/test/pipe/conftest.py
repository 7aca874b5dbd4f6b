import pytest
from harness.server import Server

from .judge import Judge


@pytest.fixture(scope="session")
def judge(server: Server) -> Judge:
    return Judge(server)
