"""What monitoring sees of the engine: names, labels and numbers, and what counting costs."""

import threading
import time
from collections.abc import Callable, Mapping

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from bpc.jobs.metrics import BUCKETS, Metrics
from bpc.jobs.outcome import Status
from tests.measuring import Measured, allowed

# The name on the line, its type, its labels beside `le`.
PROMISED = {
    ("bpc_jobs_enqueued_total", "counter", ("type",)),
    ("bpc_jobs_acquired_total", "counter", ("type",)),
    ("bpc_jobs_completed_total", "counter", ("status", "type")),
    ("bpc_job_duration_seconds", "histogram", ("type",)),
    ("bpc_jobs_running", "gauge", ("type",)),
    ("bpc_jobs_dead_letter", "gauge", ("type",)),
    ("bpc_job_queue_depth", "gauge", ("type",)),
    ("bpc_job_retries_total", "counter", ("type",)),
    ("bpc_lease_renewals_total", "counter", ()),
    ("bpc_jobs_cleaned_total", "counter", ("status",)),
}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_every_promised_metric_has_its_name_type_and_labels_and_there_are_no_others(metrics: Metrics) -> None:
    metrics.expect(["report"])

    shown = {
        (
            f"{family.name}_total" if family.type == "counter" else family.name,
            family.type,
            tuple(sorted(sample.labels.keys() - {"le"})),
        )
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }

    assert shown == PROMISED


def test_a_type_that_is_expected_shows_zeros_before_its_first_job(metrics: Metrics) -> None:
    metrics.expect(["report"])

    assert value(metrics, "bpc_jobs_enqueued_total", type="report") == 0
    assert value(metrics, "bpc_jobs_completed_total", type="report", status="DEAD_LETTER") == 0
    assert value(metrics, "bpc_job_duration_seconds_count", type="report") == 0
    assert value(metrics, "bpc_lease_renewals_total") == 0
    assert value(metrics, "bpc_jobs_cleaned_total", status="SUCCEEDED") == 0


def test_counters_add_up_over_batches(metrics: Metrics) -> None:
    for _ in range(2):
        metrics.enqueued("report")
        metrics.enqueued("report", 100)
        metrics.acquired({"report": 60, "mail": 40})
        metrics.finished("report", Status.SUCCEEDED, 59, [0.01] * 59)
        metrics.finished("report", Status.DEAD_LETTER, 1)
        metrics.retried("mail", 3)
        metrics.renewed(7)
        metrics.cleaned({Status.SUCCEEDED: 500, Status.CANCELLED: 2})

    assert value(metrics, "bpc_jobs_enqueued_total", type="report") == 202
    assert value(metrics, "bpc_jobs_acquired_total", type="report") == 120
    assert value(metrics, "bpc_jobs_acquired_total", type="mail") == 80
    assert value(metrics, "bpc_jobs_completed_total", type="report", status="SUCCEEDED") == 118
    assert value(metrics, "bpc_jobs_completed_total", type="report", status="DEAD_LETTER") == 2
    assert value(metrics, "bpc_job_retries_total", type="mail") == 6
    assert value(metrics, "bpc_lease_renewals_total") == 14
    assert value(metrics, "bpc_jobs_cleaned_total", status="SUCCEEDED") == 1000
    assert value(metrics, "bpc_jobs_cleaned_total", status="CANCELLED") == 4


def test_running_goes_up_and_down(metrics: Metrics) -> None:
    metrics.running("report", 5)
    metrics.running("report", -3)

    assert value(metrics, "bpc_jobs_running", type="report") == 2


@pytest.mark.parametrize(
    ("observe", "name"),
    [
        (Metrics.observe_depth, "bpc_job_queue_depth"),
        (Metrics.observe_dead_letters, "bpc_jobs_dead_letter"),
    ],
)
def test_a_type_that_is_no_longer_observed_is_zero_and_does_not_vanish(
    metrics: Metrics, observe: Callable[[Metrics, Mapping[str, int]], None], name: str
) -> None:
    observe(metrics, {"report": 10, "mail": 3})
    observe(metrics, {"mail": 4})

    assert value(metrics, name, type="report") == 0
    assert value(metrics, name, type="mail") == 4


def test_a_duration_is_in_every_bucket_it_does_not_exceed(metrics: Metrics) -> None:
    metrics.finished("report", Status.SUCCEEDED, 3, [0.001, 0.0011, 0.3])
    metrics.retried("report", 1, [1000.0])

    assert value(metrics, "bpc_job_duration_seconds_bucket", type="report", le="0.001") == 1
    assert value(metrics, "bpc_job_duration_seconds_bucket", type="report", le="0.0025") == 2
    assert value(metrics, "bpc_job_duration_seconds_bucket", type="report", le="0.25") == 2
    assert value(metrics, "bpc_job_duration_seconds_bucket", type="report", le="0.5") == 3
    assert value(metrics, "bpc_job_duration_seconds_bucket", type="report", le="300.0") == 3
    assert value(metrics, "bpc_job_duration_seconds_bucket", type="report", le="+Inf") == 4
    assert value(metrics, "bpc_job_duration_seconds_count", type="report") == 4
    assert value(metrics, "bpc_job_duration_seconds_sum", type="report") == pytest.approx(1000.3021)


def test_buckets_reach_from_a_millisecond_to_the_default_timeout() -> None:
    assert (BUCKETS[0], BUCKETS[-1]) == (0.001, 300.0)
    assert list(BUCKETS) == sorted(BUCKETS)


def test_two_services_in_a_process_count_apart_and_a_namespace_and_registry_can_be_chosen() -> None:
    shared = CollectorRegistry(auto_describe=True)
    ours, theirs, alone = Metrics(registry=shared), Metrics("other", registry=shared), Metrics()
    ours.renewed(1)
    theirs.renewed(2)

    assert shared.get_sample_value("bpc_lease_renewals_total") == 1
    assert shared.get_sample_value("other_lease_renewals_total") == 2
    assert value(alone, "bpc_lease_renewals_total") == 0
    assert REGISTRY.get_sample_value("bpc_lease_renewals_total") is None
    with pytest.raises(ValueError, match="Duplicated"):
        Metrics(registry=shared)


def test_nothing_is_lost_while_two_threads_count_and_a_third_asks(metrics: Metrics) -> None:
    def count() -> None:
        for number in range(2_000):
            metrics.acquired({f"type{number % 100}": 1})
            metrics.finished("report", Status.SUCCEEDED, 1, [0.002])
            metrics.renewed(1)

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        families = {family.name: family for family in text_string_to_metric_families(metrics.text().decode())}
        counted = {sample.name: sample.value for sample in families["bpc_job_duration_seconds"].samples}
        finished = sum(sample.value for sample in families["bpc_jobs_completed"].samples)
        assert counted.get("bpc_job_duration_seconds_count", 0) == finished  # one moment, not two
    for thread in threads:
        thread.join()

    assert value(metrics, "bpc_lease_renewals_total") == 4_000
    assert value(metrics, "bpc_jobs_acquired_total", type="type7") == 40
    assert value(metrics, "bpc_job_duration_seconds_count", type="report") == 4_000


def test_a_batch_of_100_jobs_is_counted_in_50_microseconds(metrics: Metrics, measured: Measured) -> None:
    seconds = [0.0005 * 1.15**number for number in range(100)]  # every bucket, and beyond the last

    def batch() -> float:
        begun = time.perf_counter()
        metrics.acquired({"report": 60, "mail": 40})
        metrics.running("report", 100)
        metrics.finished("report", Status.SUCCEEDED, 100, seconds)
        metrics.running("report", -100)
        return time.perf_counter() - begun

    best = min(batch() for _ in range(500))

    measured("job-metrics", microseconds_per_batch_of_100=round(best * 1e6, 1))
    assert best < allowed(50e-6)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)
