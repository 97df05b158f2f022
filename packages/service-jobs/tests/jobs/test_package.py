"""The distribution: it imports without its extras, names no product, and its README runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import service_jobs
from service_jobs import list_migrations
from tests.jobs.support.database_url import format_url

from bpc.runtime.postgres.address import Address
from tests.fixtures import TestServer

PACKAGE = Path(__file__).parents[2]
SOURCES = Path(service_jobs.__file__).parent
README = (PACKAGE / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
# The hash of a released migration is stored in every installation, so this comment stays as it is.
RELEASED_COMMENT = "bpc/jobs/worker/claims.py"

WITHOUT_EXTRAS = """
import sys
for name in ("prometheus_client", "opentelemetry", "aio_pika"):
    sys.modules[name] = None
import service_jobs, service_jobs.command, service_jobs.testing
from service_jobs.telemetry import UNTRACED, get_traceparent, trace_submit
metrics = service_jobs.Metrics()
metrics.count_enqueued("greet", 3)
assert get_traceparent() is None and trace_submit("greet") is UNTRACED
print("fine")
"""


def run_script(script: str, **environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.stdout + ran.stderr


@pytest.mark.external
def test_the_service_in_the_readme_runs_on_an_empty_database(server: TestServer, empty_address: Address) -> None:
    url = format_url(server.admin.with_database(empty_address.database))

    assert run_script(EXAMPLES[0], DATABASE_URL=url) == "hello world\n"


def test_the_service_in_the_readme_has_at_most_30_lines() -> None:
    assert len([line for line in EXAMPLES[0].splitlines() if line.strip()]) <= 30


def test_any_module_can_be_imported_first() -> None:
    forget = "[sys.modules.pop(name) for name in list(sys.modules) if name.partition('.')[0] == 'service_jobs']"
    names = [f"service_jobs.{path.stem}" for path in sorted(SOURCES.glob("[a-z]*.py"))]
    script = (
        f"import importlib, sys\nfor first in {names}:\n    {forget}\n    importlib.import_module(first)\nprint('fine')"
    )

    assert run_script(script) == "fine\n"


def test_the_package_works_without_its_extras() -> None:
    assert run_script(WITHOUT_EXTRAS) == "fine\n"


def test_no_source_names_the_product() -> None:
    files = [path for path in SOURCES.rglob("*") if path.suffix in {".py", ".sql"}]
    lines = [(path.name, line) for path in files for line in path.read_text().splitlines() if "bpc" in line.lower()]

    assert [name for name, line in lines if RELEASED_COMMENT not in line] == []
    assert [name for name, _ in lines] == ["0002_functions.sql"]


def test_the_migrations_are_part_of_the_package() -> None:
    assert [name for name, _ in list_migrations()] == [
        "0001_tables.sql",
        "0002_functions.sql",
        "0003_subjects.sql",
        "0004_job_status.sql",
        "0005_schedules.sql",
    ]


def test_every_public_name_exists() -> None:
    assert sorted(set(service_jobs.__all__)) == sorted(service_jobs.__all__)
    assert [name for name in service_jobs.__all__ if not hasattr(service_jobs, name)] == []
