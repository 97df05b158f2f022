"""Workers seen as one: a count never falls, whichever of them dies."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from bpc.cli.supervise import Child, Role
from bpc.cli.workers import Workers
from bpc.jobs import Metrics
from bpc.settings import Settings

COUNT = re.compile(rb'bpc_jobs_enqueued_total\{type="a"\} ([0-9]+)')


class Answering:
    """A child as `Workers` sees it, with the answers of the test: None where nobody is there."""

    def __init__(self) -> None:
        self.role = Role(name="worker 1", command=(), stop_seconds=0)
        self.started = 1
        self.answer: str | None = None

    async def ask(self, what: str) -> str | None:
        assert what in {"figures", "condition"}
        return self.answer

    def enqueued(self, count: int) -> None:
        metrics = Metrics()
        metrics.enqueued("a", count)
        self.answer = metrics.text().decode()

    def dies(self) -> None:
        self.answer = None

    def comes_back(self) -> None:
        self.started += 1
        self.enqueued(0)


def seen_as_one(*children: Answering) -> Workers:
    return Workers(cast("Sequence[Child]", children))


async def counted(workers: Workers) -> int:
    found = COUNT.search(await workers.figures())
    assert found is not None
    return int(found[1])


async def test_what_a_worker_counted_is_kept_when_it_dies_and_added_to_what_the_next_one_counts() -> None:
    one, other = Answering(), Answering()
    workers = seen_as_one(one, other)
    one.enqueued(3)
    other.enqueued(4)
    assert await counted(workers) == 7

    one.dies()
    assert await counted(workers) == 7
    one.comes_back()
    assert await counted(workers) == 7
    one.enqueued(2)
    assert await counted(workers) == 9
    one.dies()
    one.comes_back()
    assert await counted(workers) == 9


async def test_one_that_does_not_answer_is_not_ready_and_named_all_the_same() -> None:
    one = Answering()
    workers = seen_as_one(one)
    (away,) = await workers.conditions()
    one.answer = json.dumps({"worker": "vm:1:ab", "checks": {"database": "OK"}})

    (there,) = await workers.conditions()

    assert (away.worker, away.is_ready) == ("worker 1", False)
    assert (there.worker, there.is_ready) == ("vm:1:ab", True)


@pytest.mark.parametrize("figures", [True, False])
def test_figures_that_are_switched_off_have_no_page(figures: bool) -> None:
    settings = Settings(data_dir=Path("/nonexistent"), metrics_enabled=figures)

    assert (seen_as_one().watched(settings).figures is not None) == figures
