"""What tests of the job engine share: it runs on a database of the product, with the product's roles."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from bpc.db.address import Address
from bpc.db.jobs import sessions_at
from bpc.jobs.handler import Handlers
from bpc.jobs.sessions import Sessions

if TYPE_CHECKING:
    from bpc.jobs.service import Jobs


@pytest.fixture
async def sessions(address: Address) -> AsyncIterator[Sessions]:
    """Open sessions on a new, migrated database."""
    opened = sessions_at(address, size=10)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def jobs(handlers: Handlers, sessions: Sessions) -> "Jobs":
    from bpc.jobs.service import Jobs

    return Jobs(handlers, sessions)
