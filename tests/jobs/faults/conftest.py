"""What tests that break things share."""

from collections.abc import AsyncIterator

import pytest

from bpc.db.address import Address
from tests.conftest import TestServer
from tests.jobs.faults.ground import Ground, ground


@pytest.fixture
async def field(request: pytest.FixtureRequest, server: TestServer, address: Address) -> AsyncIterator[Ground]:
    """A new database of the run's server to break workers on."""
    async with ground(address, server.admin.at(address.database), request.node.name) as made:
        yield made
