"""Which tests coverage measures, and how it is stopped while others run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from coverage import Coverage

# What these go through, others go through too, and they start many programs. Coverage would make them twice as slow.
NOT_MEASURED = (
    "packages/service-jobs/tests/jobs/faults/",
    "tests/api/access/test_permissions.py",
    "tests/api/access/test_secret_leaks.py",
    "tests/api/access/test_tenancy.py",
    "tests/api/graphql/test_tenancy.py",
    "tests/api/http/test_openapi_contract.py",
    "tests/api/http/test_sent_times.py",
    "tests/journey/",
    "tests/project/",
    "tests/rotation/",
    "tests/upgrades/",
    "tests/worker/test_kills.py",
)
IS_MEASURED = pytest.StashKey[bool]()


def save_measured() -> None:
    """Measure no more, and write down what was."""
    if measuring := Coverage.current():
        measuring.stop()
        measuring.save()


def is_measured(item: pytest.Item) -> bool:
    return (
        item.stash.get(IS_MEASURED, True)
        and not any(map(item.get_closest_marker, ("slow", "repeats")))
        and not item.nodeid.startswith(NOT_MEASURED)
    )


@contextmanager
def stop_measuring() -> Iterator[None]:
    """Measure no coverage while inside, neither here nor in programs that are started."""
    measuring = Coverage.current()
    if measuring is None:
        yield
        return
    inherited = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("COVERAGE_")}
    measuring.stop()
    try:
        yield
    finally:
        _start_again(measuring)
        os.environ.update(inherited)


def _start_again(measuring: Coverage) -> None:
    """Do what `Coverage.start` does, but for looking through all modules again, which takes 16 ms each time."""
    assert measuring._collector is not None
    measuring._collector.start()
    measuring._started = True
    measuring._instances.append(measuring)
