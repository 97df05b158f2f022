"""What monitoring sees of the engine: names, labels and numbers, and what counting costs."""

import threading
import time
from collections.abc import Callable, Mapping

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from service_jobs.job import Status
from service_jobs.telemetry import BUCKETS, Metrics

from tests.measurements import RecordMeasurement, allow_seconds

# The name on the line, its type, its labels beside `le`.
PROMISED = {
    ("service_jobs_enqueued_total", "counter", ("type",)),
    ("service_jobs_acquired_total", "counter", ("type",)),
    ("service_jobs_completed_total", "counter", ("status", "type")),
    ("service_job_duration_seconds", "histogram", ("type",)),
    ("service_jobs_running", "gauge", ("type",)),
    ("service_jobs_dead_letter", "gauge", ("type",)),
    ("service_job_queue_depth", "gauge", ("type",)),
    ("service_job_retries_total", "counter", ("type",)),
    ("service_lease_renewals_total", "counter", ()),
    ("service_jobs_cleaned_total", "counter", ("status",)),
}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_every_promised_metric_has_its_name_type_and_labels_and_there_are_no_others(metrics: Metrics) -> None:
    metrics.expect_types(["report"])

    exposed = {
        (
            f"{family.name}_total" if family.type == "counter" else family.name,
            family.type,
            tuple(sorted(sample.labels.keys() - {"le"})),
        )
        for family in text_string_to_metric_families(metrics.render_text().decode())
        for sample in family.samples
    }

    assert exposed == PROMISED


def test_a_type_that_is_expected_shows_zeros_before_its_first_job(metrics: Metrics) -> None:
    metrics.expect_types(["report"])

    assert get_sample_value(metrics, "service_jobs_enqueued_total", type="report") == 0
    assert get_sample_value(metrics, "service_jobs_completed_total", type="report", status="DEAD_LETTER") == 0
    assert get_sample_value(metrics, "service_job_duration_seconds_count", type="report") == 0
    assert get_sample_value(metrics, "service_lease_renewals_total") == 0
    assert get_sample_value(metrics, "service_jobs_cleaned_total", status="SUCCEEDED") == 0


def test_counters_add_up_over_batches(metrics: Metrics) -> None:
    for _ in range(2):
        metrics.count_enqueued("report")
        metrics.count_enqueued("report", 100)
        metrics.count_acquired({"report": 60, "mail": 40})
        metrics.count_finished("report", Status.SUCCEEDED, 59, [0.01] * 59)
        metrics.count_finished("report", Status.DEAD_LETTER, 1)
        metrics.count_retried("mail", 3)
        metrics.count_renewed(7)
        metrics.count_cleaned({Status.SUCCEEDED: 500, Status.CANCELLED: 2})

    assert get_sample_value(metrics, "service_jobs_enqueued_total", type="report") == 202
    assert get_sample_value(metrics, "service_jobs_acquired_total", type="report") == 120
    assert get_sample_value(metrics, "service_jobs_acquired_total", type="mail") == 80
    assert get_sample_value(metrics, "service_jobs_completed_total", type="report", status="SUCCEEDED") == 118
    assert get_sample_value(metrics, "service_jobs_completed_total", type="report", status="DEAD_LETTER") == 2
    assert get_sample_value(metrics, "service_job_retries_total", type="mail") == 6
    assert get_sample_value(metrics, "service_lease_renewals_total") == 14
    assert get_sample_value(metrics, "service_jobs_cleaned_total", status="SUCCEEDED") == 1000
    assert get_sample_value(metrics, "service_jobs_cleaned_total", status="CANCELLED") == 4


def test_running_goes_up_and_down(metrics: Metrics) -> None:
    metrics.change_running("report", 5)
    metrics.change_running("report", -3)

    assert get_sample_value(metrics, "service_jobs_running", type="report") == 2


@pytest.mark.parametrize(
    ("observe", "name"),
    [
        (Metrics.observe_depth, "service_job_queue_depth"),
        (Metrics.observe_dead_letters, "service_jobs_dead_letter"),
    ],
)
def test_a_type_that_is_no_longer_observed_is_zero_and_does_not_vanish(
    metrics: Metrics, observe: Callable[[Metrics, Mapping[str, int]], None], name: str
) -> None:
    observe(metrics, {"report": 10, "mail": 3})
    observe(metrics, {"mail": 4})

    assert get_sample_value(metrics, name, type="report") == 0
    assert get_sample_value(metrics, name, type="mail") == 4


def test_a_duration_is_in_every_bucket_it_does_not_exceed(metrics: Metrics) -> None:
    metrics.count_finished("report", Status.SUCCEEDED, 3, [0.001, 0.0011, 0.3])
    metrics.count_retried("report", 1, [1000.0])

    assert get_sample_value(metrics, "service_job_duration_seconds_bucket", type="report", le="0.001") == 1
    assert get_sample_value(metrics, "service_job_duration_seconds_bucket", type="report", le="0.0025") == 2
    assert get_sample_value(metrics, "service_job_duration_seconds_bucket", type="report", le="0.25") == 2
    assert get_sample_value(metrics, "service_job_duration_seconds_bucket", type="report", le="0.5") == 3
    assert get_sample_value(metrics, "service_job_duration_seconds_bucket", type="report", le="300.0") == 3
    assert get_sample_value(metrics, "service_job_duration_seconds_bucket", type="report", le="+Inf") == 4
    assert get_sample_value(metrics, "service_job_duration_seconds_count", type="report") == 4
    assert get_sample_value(metrics, "service_job_duration_seconds_sum", type="report") == pytest.approx(1000.3021)


def test_buckets_reach_from_a_millisecond_to_the_default_timeout() -> None:
    assert (BUCKETS[0], BUCKETS[-1]) == (0.001, 300.0)
    assert list(BUCKETS) == sorted(BUCKETS)


def test_two_services_in_a_process_count_apart_and_a_namespace_and_registry_can_be_chosen() -> None:
    shared = CollectorRegistry(auto_describe=True)
    ours, theirs, alone = Metrics(registry=shared), Metrics("other", registry=shared), Metrics()
    ours.count_renewed(1)
    theirs.count_renewed(2)

    assert shared.get_sample_value("service_lease_renewals_total") == 1
    assert shared.get_sample_value("other_lease_renewals_total") == 2
    assert get_sample_value(alone, "service_lease_renewals_total") == 0
    assert REGISTRY.get_sample_value("service_lease_renewals_total") is None
    with pytest.raises(ValueError, match="Duplicated"):
        Metrics(registry=shared)


def test_nothing_is_lost_while_two_threads_count_and_a_third_asks(metrics: Metrics) -> None:
    def count() -> None:
        for number in range(2_000):
            metrics.count_acquired({f"type{number % 100}": 1})
            metrics.count_finished("report", Status.SUCCEEDED, 1, [0.002])
            metrics.count_renewed(1)

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        families = {family.name: family for family in text_string_to_metric_families(metrics.render_text().decode())}
        counted = {sample.name: sample.value for sample in families["service_job_duration_seconds"].samples}
        finished = sum(sample.value for sample in families["service_jobs_completed"].samples)
        assert counted.get("service_job_duration_seconds_count", 0) == finished  # one moment, not two
    for thread in threads:
        thread.join()

    assert get_sample_value(metrics, "service_lease_renewals_total") == 4_000
    assert get_sample_value(metrics, "service_jobs_acquired_total", type="type7") == 40
    assert get_sample_value(metrics, "service_job_duration_seconds_count", type="report") == 4_000


def test_a_batch_of_100_jobs_is_counted_in_50_microseconds(
    metrics: Metrics, record_measurement: RecordMeasurement
) -> None:
    seconds = [0.0005 * 1.15**number for number in range(100)]  # every bucket, and beyond the last

    def batch() -> float:
        begun = time.perf_counter()
        metrics.count_acquired({"report": 60, "mail": 40})
        metrics.change_running("report", 100)
        metrics.count_finished("report", Status.SUCCEEDED, 100, seconds)
        metrics.change_running("report", -100)
        return time.perf_counter() - begun

    best = min(batch() for _ in range(500))

    record_measurement("job-metrics", microseconds_per_batch_of_100=round(best * 1e6, 1))
    assert best < allow_seconds(50e-6)


def get_sample_value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)
