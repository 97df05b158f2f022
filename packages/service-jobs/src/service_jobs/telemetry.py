"""Telemetry: counts for Prometheus and spans for OpenTelemetry. Both libraries are optional.

    metrics = Metrics()
    metrics.count_finished("report", Status.SUCCEEDED, 100, seconds)      a whole batch at a time
    metrics.render_text()                                                 Prometheus text format

Counting needs no library: the counts are plain numbers under one lock, and become Prometheus samples only when a scrape
asks for them. Labels are job types and statuses, never tenants, so the number of series does not grow with customers.

A job's executions are children of the span that submitted it, in whatever process they run. Without the library or a
configured provider, tracing costs nothing.
"""

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, cast

from service_jobs.job import JobError, Outcome, Status

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:  # the extra `opentelemetry` is not installed
    HAS_OPENTELEMETRY = False
else:
    HAS_OPENTELEMETRY = True

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from service_jobs.context import Lease  # which imports get_traceparent from here

# Seconds: from a handler that only looks something up to one that uses all of the default timeout.
BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
BUCKET_LABELS: Final = (*(str(bound) for bound in BUCKETS), "+Inf")
FINAL_STATUSES: Final = tuple(status for status in Status if status.is_over)

Counts = Counter[str]


class DurationHistogram:
    """A histogram that counts a whole batch at once."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * len(BUCKET_LABELS)  # per bucket; `accumulate_buckets` adds them up
        self.total = 0.0

    def add(self, seconds: Sequence[float]) -> None:
        self.total += sum(seconds)
        for duration in seconds:
            self.counts[bisect_left(BUCKETS, duration)] += 1  # the first bound it does not exceed, else the last bucket

    def accumulate_buckets(self) -> list[tuple[str, float]]:
        """As Prometheus expects them: each bucket includes those before it."""
        return list(zip(BUCKET_LABELS, accumulate(self.counts), strict=True))


class Metrics:
    """The counts of one process. Any thread may count and read. `prefix` begins the name of every metric."""

    def __init__(self, prefix: str = "service", registry: "CollectorRegistry | None" = None) -> None:
        self._registry: CollectorRegistry | None = None
        self._prefix = prefix
        self._lock = threading.Lock()
        self._enqueued = Counts()
        self._acquired = Counts()
        self._retries = Counts()
        self._running = Counts()
        self._dead_letters = Counts()
        self._depth = Counts()
        self._completed: Counter[tuple[str, str]] = Counter()
        self._durations: defaultdict[str, DurationHistogram] = defaultdict(DurationHistogram)
        self._renewals = 0
        self._cleaned = Counts(dict.fromkeys(FINAL_STATUSES, 0))
        if registry is not None:
            self._register(registry)

    @property
    def registry(self) -> "CollectorRegistry":
        """The registry that exposes these counts. Needs the extra `prometheus`."""
        if self._registry is None:
            from prometheus_client import CollectorRegistry  # noqa: PLC0415 (an extra)

            return self._register(CollectorRegistry())
        return self._registry

    def _register(self, registry: "CollectorRegistry") -> "CollectorRegistry":
        registry.register(self)
        self._registry = registry
        return registry

    def expect_types(self, types: Iterable[str]) -> None:
        """Show these types from the start, with zeros, so that a rate sees the first job."""
        with self._lock:
            for job_type in types:
                for counts in (self._enqueued, self._acquired, self._retries, self._running):
                    counts.setdefault(job_type, 0)
                for counts in (self._dead_letters, self._depth):
                    counts.setdefault(job_type, 0)
                for status in FINAL_STATUSES:
                    self._completed.setdefault((job_type, status), 0)
                self._durations[job_type]

    def count_enqueued(self, job_type: str, count: int = 1) -> None:
        with self._lock:
            self._enqueued[job_type] += count

    def count_acquired(self, counts: Mapping[str, int]) -> None:
        """A worker claimed this many jobs of each type."""
        with self._lock:
            self._acquired.update(counts)

    def change_running(self, job_type: str, delta: int) -> None:
        """`delta` more executions run, or fewer if it is negative."""
        with self._lock:
            self._running[job_type] += delta

    def count_finished(self, job_type: str, status: str, count: int, seconds: Sequence[float] = ()) -> None:
        """`count` jobs are over. `seconds` are the durations of their executions, as far as they ran here."""
        with self._lock:
            self._completed[job_type, status] += count
            if seconds:
                self._durations[job_type].add(seconds)

    def count_retried(self, job_type: str, count: int = 1, seconds: Sequence[float] = ()) -> None:
        """`count` executions failed after `seconds` each, and their jobs will run again."""
        with self._lock:
            self._retries[job_type] += count
            if seconds:
                self._durations[job_type].add(seconds)

    def count_renewed(self, count: int) -> None:
        with self._lock:
            self._renewals += count

    def count_cleaned(self, counts: Mapping[str, int]) -> None:
        """Retention removed this many jobs of each status."""
        with self._lock:
            self._cleaned.update(counts)

    def observe_depth(self, by_type: Mapping[str, int]) -> None:
        """This many jobs wait now; of other types, none."""
        with self._lock:
            _replace_counts(self._depth, by_type)

    def observe_dead_letters(self, by_type: Mapping[str, int]) -> None:
        """This many jobs are dead letters now; of other types, none."""
        with self._lock:
            _replace_counts(self._dead_letters, by_type)

    def render_text(self) -> bytes:
        """The whole registry in Prometheus' text format."""
        from prometheus_client import generate_latest  # noqa: PLC0415 (an extra)

        return generate_latest(self.registry)

    def collect(self) -> "list[Metric]":
        """The counts of this moment. The registry calls it."""
        from prometheus_client import core  # noqa: PLC0415 (an extra)

        def fill(family: Any, counts: Mapping[Any, int]) -> "Metric":
            for labels, count in counts.items():
                family.add_metric([labels] if isinstance(labels, str) else labels, count)
            return cast("Metric", family)

        def build_counter(name: str, documentation: str, counts: Mapping[Any, int], *labels: str) -> "Metric":
            family = core.CounterMetricFamily(f"{self._prefix}_{name}", documentation, labels=labels or ["type"])
            return fill(family, counts)

        def build_gauge(name: str, documentation: str, counts: Mapping[str, int]) -> "Metric":
            return fill(core.GaugeMetricFamily(f"{self._prefix}_{name}", documentation, labels=["type"]), counts)

        durations = core.HistogramMetricFamily(
            f"{self._prefix}_job_duration_seconds", "Duration of one execution.", labels=["type"]
        )
        with self._lock:
            for job_type, histogram in self._durations.items():
                durations.add_metric([job_type], histogram.accumulate_buckets(), histogram.total)
            return [
                build_counter("jobs_enqueued", "Jobs submitted.", self._enqueued),
                build_counter("jobs_acquired", "Jobs claimed, once per execution.", self._acquired),
                build_counter("jobs_completed", "Finished jobs by final status.", self._completed, "type", "status"),
                durations,
                build_gauge("jobs_running", "Executions running in this process.", self._running),
                build_gauge("jobs_dead_letter", "Dead-letter jobs.", self._dead_letters),
                build_gauge("job_queue_depth", "Jobs that wait.", self._depth),
                build_counter("job_retries", "Failed executions whose jobs run again.", self._retries),
                core.CounterMetricFamily(f"{self._prefix}_lease_renewals", "Leases renewed.", value=self._renewals),
                build_counter("jobs_cleaned", "Jobs removed by retention.", self._cleaned, "status"),
            ]


def _replace_counts(old: Counts, new: Mapping[str, int]) -> None:
    # A type that was there before stays with a zero: a missing series would look like a dead worker.
    for key in old:
        old[key] = 0
    dict.update(old, new)


# Traces -------------------------------------------------------------------------------------------------------------

TRACER_NAME: Final = "service_jobs"


class JobSpan:
    """The span of an execution; None if it is not traced."""

    __slots__ = ("_span",)

    def __init__(self, span: "trace.Span | None" = None) -> None:
        self._span = span

    def record_outcome(self, outcome: Outcome) -> None:
        if self._span is None:
            return
        self._span.set_attribute("status", outcome.ending.value)
        if outcome.error is not None:
            _mark_error(self._span, outcome.error.code)


UNTRACED: Final[AbstractContextManager[JobSpan]] = nullcontext(JobSpan())


def get_traceparent() -> str | None:
    """The current span as a W3C `traceparent`; None if there is none."""
    if not HAS_OPENTELEMETRY:
        return None
    span = trace.get_current_span()
    if span is trace.INVALID_SPAN:
        return None
    span_context = span.get_span_context()
    if not span_context.is_valid:
        return None
    # https://www.w3.org/TR/trace-context/ 3.2: version, trace, parent, flags
    return f"00-{span_context.trace_id:032x}-{span_context.span_id:016x}-{span_context.trace_flags:02x}"


def get_tracer(provider: "trace.TracerProvider | None" = None) -> "trace.Tracer | None":
    """The tracer of `provider` or of the provider that the service configured; None if there is none."""
    if not HAS_OPENTELEMETRY:
        return None
    candidate = (provider or _get_configured_provider()).get_tracer(TRACER_NAME)
    return None if isinstance(candidate, trace.ProxyTracer | trace.NoOpTracer) else candidate


def trace_submit(
    job_type: str, count: int = 1, *, provider: "trace.TracerProvider | None" = None
) -> AbstractContextManager[JobSpan]:
    """The span `job.submit`, for `count` jobs of one type."""
    if (job_tracer := get_tracer(provider)) is None:
        return UNTRACED
    return _use_span(
        job_tracer.start_span(
            "job.submit",
            kind=trace.SpanKind.PRODUCER,
            attributes={"handler_id": job_type, "job_count": count},
        )
    )


def trace_execution(
    lease: "Lease",
    traceparent: str | None,
    *,
    attempt: int | None = None,
    provider: "trace.TracerProvider | None" = None,
) -> AbstractContextManager[JobSpan]:
    """The span `job.execute`, a child of the span in `traceparent`, or the first of a trace if that names none.

    `attempt` is the number that people see, which a redrive resets; without it, the lease's number is used.
    """
    if (job_tracer := get_tracer(provider)) is None:
        return UNTRACED
    return _use_span(
        job_tracer.start_span(
            "job.execute",
            # Not a child of the current span: the worker's own span has nothing to do with the job.
            context=TraceContextTextMapPropagator().extract({"traceparent": traceparent or ""}, Context()),
            kind=trace.SpanKind.CONSUMER,
            attributes={
                "job_id": str(lease.job_id),
                "handler_id": lease.type,
                "attempt": lease.attempt if attempt is None else attempt,
            },
        )
    )


@cache
def _get_configured_provider() -> "trace.TracerProvider":
    """Cached, because the call is slow. Before a provider is configured, it is a proxy of the later one."""
    return trace.get_tracer_provider()


@contextmanager
def _use_span(span: "trace.Span") -> Iterator[JobSpan]:
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield JobSpan(span)
        except Exception as error:
            _mark_error(span, JobError.from_exception(error).code)
            raise
        except BaseException as error:  # cancelled: the reason is not known here
            _mark_error(span, type(error).__name__)
            raise


def _mark_error(span: "trace.Span", code: str) -> None:
    span.set_attribute("error.type", code)
    span.set_status(trace.StatusCode.ERROR, code)
