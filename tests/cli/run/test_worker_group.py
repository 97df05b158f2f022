"""Workers seen as one: a count never falls, whichever of them dies."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from service_jobs import Metrics

from bpc.cli.run.worker import WorkerGroup
from bpc.runtime.settings import Settings
from bpc.runtime.supervision import ChildSpec, SupervisedProcess

COUNT = re.compile(rb'bpc_jobs_enqueued_total\{type="a"\} ([0-9]+)')


class FakeChild:
    """A child as `Workers` sees it, with the answers of the test: None where nobody is there."""

    def __init__(self) -> None:
        self.spec = ChildSpec(name="worker 1", command=(), stop_seconds=0)
        self.start_count = 1
        self.answer: str | None = None

    async def ask(self, what: str) -> str | None:
        assert what in {"figures", "condition"}
        return self.answer

    def set_enqueued(self, count: int) -> None:
        metrics = Metrics("bpc")
        metrics.count_enqueued("a", count)
        self.answer = metrics.render_text().decode()

    def die(self) -> None:
        self.answer = None

    def come_back(self) -> None:
        self.start_count += 1
        self.set_enqueued(0)


def make_worker_group(*children: FakeChild) -> WorkerGroup:
    return WorkerGroup(cast("Sequence[SupervisedProcess]", children))


async def count_enqueued(workers: WorkerGroup) -> int:
    match = COUNT.search(await workers.collect_metrics())
    assert match is not None
    return int(match[1])


async def test_what_a_worker_counted_is_kept_when_it_dies_and_added_to_what_the_next_one_counts() -> None:
    one, other = FakeChild(), FakeChild()
    workers = make_worker_group(one, other)
    one.set_enqueued(3)
    other.set_enqueued(4)
    assert await count_enqueued(workers) == 7

    one.die()
    assert await count_enqueued(workers) == 7
    one.come_back()
    assert await count_enqueued(workers) == 7
    one.set_enqueued(2)
    assert await count_enqueued(workers) == 9
    one.die()
    one.come_back()
    assert await count_enqueued(workers) == 9


async def test_one_that_does_not_answer_is_not_ready_and_named_all_the_same() -> None:
    one = FakeChild()
    workers = make_worker_group(one)
    (away,) = await workers.collect_conditions()
    one.answer = json.dumps({"worker": "vm:1:ab", "checks": {"database": "OK"}})

    (condition,) = await workers.collect_conditions()

    assert (away.worker, away.is_ready) == ("worker 1", False)
    assert (condition.worker, condition.is_ready) == ("vm:1:ab", True)


@pytest.mark.parametrize("figures", [True, False])
def test_figures_that_are_switched_off_have_no_page(figures: bool) -> None:
    settings = Settings(data_dir=Path("/nonexistent"), metrics_enabled=figures)

    assert (make_worker_group().make_watched(settings).read_metrics is not None) == figures
