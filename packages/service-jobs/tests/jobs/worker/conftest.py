"""A table that handlers write to."""

import asyncpg
import pytest


@pytest.fixture
async def create_effects_table(superuser: "asyncpg.Connection[asyncpg.Record]") -> str:
    """A table that handlers write to; it takes doubles, so that a test sees them."""
    await superuser.execute("CREATE TABLE effects (job_id uuid, attempt int); GRANT ALL ON effects TO bpc_app")
    return "effects"
