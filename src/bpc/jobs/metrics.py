"""What the engine counts, for monitoring systems to fetch.

    metrics = Metrics()
    metrics.finished("report", Status.SUCCEEDED, 100, seconds)      a batch at a time
    metrics.text()                                                  Prometheus exposition

The engine counts whole batches and a scrape is rare, so the counts are plain numbers under one lock and become
Prometheus samples only when somebody asks. Labels are types of registered handlers and statuses, never tenants:
there are as many series as the service has handlers, however many customers it has.
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bpc.jobs.outcome import Status

# Seconds. From a handler that only looks something up to one that uses all of the default timeout.
BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
LABELS: Final = (*(str(bound) for bound in BUCKETS), "+Inf")
ENDS: Final = tuple(status for status in Status if status.is_over)

Counts = defaultdict[str, int]


class Durations:
    """A histogram that takes a whole batch at once."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * len(LABELS)  # of each bucket alone; only the exposition adds them up
        self.total = 0.0

    def add(self, seconds: Sequence[float]) -> None:
        self.total += sum(seconds)
        for taken in seconds:
            self.counts[bisect_left(BUCKETS, taken)] += 1  # the first bound it does not exceed, or beyond the last

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus wants them: each bucket contains those before it."""
        return list(zip(LABELS, accumulate(self.counts), strict=True))


class Metrics:
    """The counts of one process. Any thread may count, any thread may ask."""

    def __init__(self, namespace: str = "bpc", registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        self._namespace = namespace
        self._lock = threading.Lock()
        self._enqueued = Counts(int)
        self._acquired = Counts(int)
        self._retries = Counts(int)
        self._running = Counts(int)
        self._dead_letters = Counts(int)
        self._depth = Counts(int)
        self._completed: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._durations: defaultdict[str, Durations] = defaultdict(Durations)
        self._renewals = 0
        self._cleaned = Counts(int, dict.fromkeys(ENDS, 0))
        self.registry.register(_Exposition(self))

    def expect(self, types: Iterable[str]) -> None:
        """Show these types from the start, with zeros: the first job is then a step that a rate can see."""
        with self._lock:
            for job_type in types:
                self._expect(job_type)

    def enqueued(self, job_type: str, count: int = 1) -> None:
        with self._lock:
            self._enqueued[job_type] += count

    def acquired(self, counts: Mapping[str, int]) -> None:
        """A worker took so many jobs of each type."""
        with self._lock:
            _add(self._acquired, counts)

    def running(self, job_type: str, delta: int) -> None:
        """So many more executions run, or fewer if `delta` is negative."""
        with self._lock:
            self._running[job_type] += delta

    def finished(self, job_type: str, status: str, count: int, seconds: Sequence[float] = ()) -> None:
        """So many jobs are over. `seconds` are their executions' durations; a job ended by others has none."""
        with self._lock:
            self._completed[job_type, status] += count
            if seconds:
                self._durations[job_type].add(seconds)

    def retried(self, job_type: str, count: int = 1, seconds: Sequence[float] = ()) -> None:
        """So many executions failed, in so many `seconds` each, and their jobs will run again."""
        with self._lock:
            self._retries[job_type] += count
            if seconds:
                self._durations[job_type].add(seconds)

    def renewed(self, count: int) -> None:
        with self._lock:
            self._renewals += count

    def cleaned(self, counts: Mapping[str, int]) -> None:
        """Retention removed so many jobs of each status."""
        with self._lock:
            _add(self._cleaned, counts)

    def observe_depth(self, by_type: Mapping[str, int]) -> None:
        """So many jobs wait now; of a type that is not mentioned, none."""
        with self._lock:
            _replace(self._depth, by_type)

    def observe_dead_letters(self, by_type: Mapping[str, int]) -> None:
        """So many jobs are dead letters now; of a type that is not mentioned, none."""
        with self._lock:
            _replace(self._dead_letters, by_type)

    def text(self) -> bytes:
        """All of the registry in Prometheus' text format."""
        return generate_latest(self.registry)

    def families(self) -> list[Metric]:
        """One moment's counts."""
        with self._lock:
            return [
                self._counter("jobs_enqueued", "Jobs submitted.", self._enqueued),
                self._counter("jobs_acquired", "Jobs taken by a worker, once for each execution.", self._acquired),
                self._completions(),
                self._histogram(),
                self._gauge("jobs_running", "Executions running in this process.", self._running),
                self._gauge("jobs_dead_letter", "Jobs that failed for good and wait for a person.", self._dead_letters),
                self._gauge("job_queue_depth", "Jobs that wait.", self._depth),
                self._counter("job_retries", "Executions that failed and will be repeated.", self._retries),
                CounterMetricFamily(self._name("lease_renewals"), "Leases renewed.", value=self._renewals),
                self._counter("jobs_cleaned", "Jobs removed when their time was over.", self._cleaned, "status"),
            ]

    def _expect(self, job_type: str) -> None:
        for counts in (
            *(self._enqueued, self._acquired, self._retries, self._running),
            *(self._dead_letters, self._depth, self._durations),
        ):
            counts[job_type]
        for status in ENDS:
            self._completed[job_type, status]

    def _name(self, name: str) -> str:
        return f"{self._namespace}_{name}"

    def _counter(self, name: str, says: str, counts: Mapping[str, int], label: str = "type") -> Metric:
        family = CounterMetricFamily(self._name(name), says, labels=[label])
        for key, count in counts.items():
            family.add_metric([key], count)
        return family

    def _gauge(self, name: str, says: str, counts: Mapping[str, int]) -> Metric:
        family = GaugeMetricFamily(self._name(name), says, labels=["type"])
        for key, count in counts.items():
            family.add_metric([key], count)
        return family

    def _completions(self) -> Metric:
        family = CounterMetricFamily(
            self._name("jobs_completed"), "Jobs that are over, by how they ended.", labels=["type", "status"]
        )
        for labels, count in self._completed.items():
            family.add_metric(labels, count)
        return family

    def _histogram(self) -> Metric:
        family = HistogramMetricFamily(
            self._name("job_duration_seconds"), "How long one execution took.", labels=["type"]
        )
        for job_type, durations in self._durations.items():
            family.add_metric([job_type], durations.buckets(), durations.total)
        return family


class _Exposition(Collector):
    """What the registry asks, apart from `Metrics` so that counting and asking do not share a class."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics.families()


def _add(to: Counts, counts: Mapping[str, int]) -> None:
    for key, count in counts.items():
        to[key] += count


def _replace(old: Counts, new: Mapping[str, int]) -> None:
    # A type that was there before stays, with a zero: a series that vanishes looks like a worker that is gone.
    for key in old:
        old[key] = 0
    old.update(new)
