"""A server that a guard may reach."""

from collections.abc import AsyncIterator

import pytest

from tests.outbound.receiver import Receiver


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as running:
        yield running
