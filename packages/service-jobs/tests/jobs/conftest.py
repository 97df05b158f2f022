"""What tests of the job engine share: it runs on a database of the product, with the product's roles."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
from service_jobs.database import Sessions
from service_jobs.handler import Handlers

from bpc.runtime.postgres.address import Address
from bpc.storage.jobs import make_job_sessions

if TYPE_CHECKING:
    from service_jobs.service import Jobs


@pytest.fixture
async def sessions(address: Address) -> AsyncIterator[Sessions]:
    """Open sessions on a new, migrated database."""
    opened = make_job_sessions(address, size=10)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def jobs(handlers: Handlers, sessions: Sessions) -> "Jobs":
    from service_jobs.service import Jobs

    return Jobs(handlers, sessions)
