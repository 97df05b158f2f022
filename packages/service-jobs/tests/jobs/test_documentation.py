"""The product's page about jobs, docs/jobs.md: its example runs, and the tests it names exist."""

import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.jobs.support.database_url import format_url

from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from tests.fixtures import TestServer

PAGE = Path(__file__).parents[4] / "docs" / "jobs.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.external
async def test_the_first_example_runs_on_a_database_of_the_product(
    server: TestServer, address: Address, tenant: TenantId
) -> None:
    names: dict[str, Any] = {"UUID": UUID}
    exec(EXAMPLES[0], names)

    url = format_url(server.admin.with_database(address.database))
    assert await names["greet_the_world"](url, tenant) == "hello world"


def test_every_test_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)*test_[a-z_]+\.py|faults)`", PAGE.read_text()))

    assert len(named) > 5
    assert {name for name in named if not (Path(__file__).parent / name).exists()} == set()
