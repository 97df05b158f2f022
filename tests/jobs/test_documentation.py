"""The examples in docs/jobs.md: they run, and say what they say they do."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from bpc.db.address import Address
from tests.conftest import TestServer

PAGE = Path(__file__).parents[2] / "docs" / "jobs.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.external
def test_the_first_example_runs_on_an_empty_database(
    server: TestServer, empty_address: Address, tmp_path: Path
) -> None:
    script = tmp_path / "example.py"
    script.write_text(BLOCKS[0])
    place = server.admin.at(empty_address.database)
    if place.url is None:
        url = f"postgresql://{place.user}@/{place.database}?host={quote(place.host)}&port={place.port}"
    else:
        url = urlsplit(place.url)._replace(path=f"/{place.database}").geturl()

    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        env=os.environ | {"DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.stdout == "hello world\n", ran.stderr


def test_every_test_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_[a-z_]+\.py|tests/[a-z/]+)`", PAGE.read_text()))

    assert len(named) > 5
    folder = Path(__file__).parent
    missing = {name for name in named if not (folder / name).exists() and not (folder.parents[1] / name).exists()}
    assert missing == set()


def test_the_example_starts_with_ten_lines_of_work() -> None:
    work = [line for line in BLOCKS[0].splitlines() if line.strip() and not line.startswith(("import", "from"))]

    assert len(work) <= 14
