"""Figures of several processes: together they say what one process would have said."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bpc.jobs import Metrics
from bpc.jobs.figures import combined, counted


def samples(text: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def worked(metrics: Metrics, *, times: int, depth: int) -> None:
    metrics.enqueued("a", times)
    metrics.running("a", 1)
    metrics.finished("a", "SUCCEEDED", times, [0.2] * times)
    metrics.observe_depth({"a": depth})
    metrics.observe_dead_letters({"a": depth})


@pytest.fixture
def both() -> tuple[Metrics, Metrics]:
    one, other = Metrics(), Metrics()
    one.expect(["a", "b"])
    worked(one, times=3, depth=7)
    worked(other, times=4, depth=6)
    return one, other


def test_counts_and_durations_add_up_and_what_is_read_from_the_database_does_not(both: tuple[Metrics, Metrics]) -> None:
    found = samples(combined(metrics.text() for metrics in both))

    assert found["bpc_jobs_enqueued_total", ("a",)] == 7
    assert found["bpc_jobs_enqueued_total", ("b",)] == 0
    assert found["bpc_jobs_running", ("a",)] == 2
    assert found["bpc_job_duration_seconds_count", ("a",)] == 7
    assert found["bpc_job_duration_seconds_sum", ("a",)] == pytest.approx(1.4)
    assert found["bpc_job_queue_depth", ("a",)] == 7
    assert found["bpc_jobs_dead_letter", ("a",)] == 7


def test_the_figures_of_one_are_those_of_one(both: tuple[Metrics, Metrics]) -> None:
    assert combined([both[0].text()]) == both[0].text()
    assert combined([both[0].text(), b""]) == both[0].text()
    assert combined([]) == b""


def test_every_family_is_described_once(both: tuple[Metrics, Metrics]) -> None:
    lines = combined(metrics.text() for metrics in both).decode().splitlines()
    described = [line for line in lines if line.startswith("#")]

    assert len(described) == len(set(described))


def test_of_a_process_that_is_gone_only_what_it_counted_is_left(both: tuple[Metrics, Metrics]) -> None:
    left = samples(counted(both[0].text()))

    assert left["bpc_jobs_enqueued_total", ("a",)] == 3
    assert left["bpc_job_duration_seconds_count", ("a",)] == 3
    assert not {"bpc_jobs_running", "bpc_job_queue_depth"} & {name for name, _ in left}
