"""An engine for each test."""

from collections.abc import Iterator

import pytest
from tests.jobs.worker.state_machine.machine_engine import Engine, open_engine

from tests.fixtures import TestServer


@pytest.fixture
def engine(server: TestServer, template_name: str) -> Iterator[Engine]:
    with open_engine(server, template_name) as fresh_engine:
        yield fresh_engine
