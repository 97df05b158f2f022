"""Fixtures of the database tests."""

from collections.abc import AsyncIterator

import pytest

from bpc.runtime.postgres.address import Address
from bpc.storage.database import Database, open_database


@pytest.fixture
async def single_connection(address: Address) -> AsyncIterator[Database]:
    """A pool with one connection: the next user gets the connection of the one before."""
    opened = await open_database(address, pool_size=1)
    yield opened
    await opened.close()
