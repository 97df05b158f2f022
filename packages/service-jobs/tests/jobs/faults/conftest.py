"""What tests that break things share."""

from collections.abc import AsyncIterator

import pytest
from tests.jobs.faults.fault_database import FaultDatabase, open_fault_database

from bpc.runtime.postgres.address import Address
from tests.fixtures import TestServer


@pytest.fixture
async def fault_database(
    request: pytest.FixtureRequest, server: TestServer, address: Address
) -> AsyncIterator[FaultDatabase]:
    """A new database of the run's server to break workers on."""
    async with open_fault_database(address, server.admin.with_database(address.database), request.node.name) as opened:
        yield opened
