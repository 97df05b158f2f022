"""A pool of two child processes."""

from collections.abc import AsyncIterator

import psutil
import pytest
from service_jobs.processes import ProcessPool
from tests.jobs.processes.child_functions import BEFORE


@pytest.fixture
async def processes() -> AsyncIterator[ProcessPool]:
    pool = ProcessPool(2)
    yield pool
    await pool.close()


@pytest.fixture(autouse=True)
def list_other_processes() -> None:
    """Children this process has for other reasons: a server that tests share, and the like."""
    BEFORE.clear()
    BEFORE.update(child.pid for child in psutil.Process().children())
