"""Telemetry: traces for a collector, what jobs count, and the metrics of several processes as one text.

Traces go out where the environment names a collector: OTLP over HTTP, by OpenTelemetry's own variables.

    with trace_to_collector("bpc-api", os.environ):    spans are sent in batches, from a thread
        ...                                            the end waits a few seconds for the last batch

    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or OTEL_TRACES_EXPORTER=otlp    switch it on
    OTEL_SDK_DISABLED=true, or OTEL_TRACES_EXPORTER=none                                             switch it off
    OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_*, …                  are read by the SDK

If nothing is set, OpenTelemetry's SDK is not imported and there are no spans. If the collector is down or slow, spans
are lost and a line is logged now and then; requests and jobs are not affected. Spans hold route templates, job types,
statuses and codes. Child processes that compute do not trace.

    merge_metrics([text, text])    counters and histograms add up; values of the whole installation appear once
    select_cumulative(text)        only counters and histograms: what stays true of a process that has ended

The counts of an ended process must be kept: a sum that falls looks like a restart of everything.
"""

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from bpc import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    from bpc.core.passport.compile import CompiledPassport

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SUPPORTED_PROTOCOL: Final = "http/protobuf"
SHUTDOWN_SECONDS: Final = 3.0  # for the last batch
SECONDS_BETWEEN_WARNINGS: Final = 60.0  # about a collector that does not accept spans
HEADER_LOGGER: Final = "opentelemetry.util.re"  # the logger of whatever reads headers from the environment
LIBRARY_LOGGERS: Final = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal", "urllib3")

log = logging.getLogger(__name__)


@contextmanager
def trace_to_collector(service: str, environment: Mapping[str, str]) -> Iterator[None]:
    """Send spans to the collector that `environment` names, under the name `service` unless that is set too.

    Call it once per process.
    """
    if not is_tracing_enabled(environment):
        yield
        return
    sender = _try_make_provider(service)
    try:
        yield
    finally:
        if sender is not None:
            _shut_down(*sender)


def is_tracing_enabled(environment: Mapping[str, str]) -> bool:
    """Whether spans are sent. An unsupported exporter or protocol is logged, and no spans are sent."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = {name.strip() for name in environment.get("OTEL_TRACES_EXPORTER", "").split(",")} - {""}
    is_enabled = any(environment.get(name, "").strip() for name in ENDPOINTS) if not exporters else "otlp" in exporters
    if unknown := exporters - {"otlp", "none"}:
        log.warning("traces are sent by OTLP only", extra={"not_known": sorted(unknown)})
    protocol = next((value for name in PROTOCOLS if (value := environment.get(name, "").strip())), SUPPORTED_PROTOCOL)
    if is_enabled and protocol != SUPPORTED_PROTOCOL:
        log.warning("no traces are sent: the only protocol is %s", SUPPORTED_PROTOCOL, extra={"asked_for": protocol})
        return False
    return is_enabled


def _try_make_provider(service: str) -> "tuple[TracerProvider, SpanExporter] | None":
    """The tracer provider; None if the SDK rejects its variables: then there are no traces, and all else works."""
    try:
        return _make_provider(service)
    except Exception as wrong:  # noqa: BLE001 (the SDK's checks are its own, and differ between its versions)
        reason = f"{type(wrong).__name__}: {wrong}"[:500]
        log.warning("no traces are sent: OpenTelemetry rejected its settings", extra={"reason": reason})
        return None


def _make_provider(service: str) -> "tuple[TracerProvider, SpanExporter]":
    # Imported here: it costs a fifth of a second and 8 MB.
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    logging.getLogger(HEADER_LOGGER).addFilter(_HeaderValueFilter())
    own_resource = Resource({"service.name": service, "service.version": __version__, "process.pid": os.getpid()})
    exporter = _limit_failure_lines(OTLPSpanExporter())
    # The environment overrides our values. We shut it down ourselves, in bounded time.
    provider = TracerProvider(resource=own_resource.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider, exporter


def _shut_down(provider: "TracerProvider", exporter: "SpanExporter") -> None:
    """Send the last spans. If the collector hangs, leave the thread behind."""
    shutdown_thread = threading.Thread(target=provider.shutdown, name="traces", daemon=True)
    shutdown_thread.start()
    shutdown_thread.join(SHUTDOWN_SECONDS)
    if shutdown_thread.is_alive():
        log.warning("the last traces could not be sent within %s s", SHUTDOWN_SECONDS)
        exporter.shutdown()


def _limit_failure_lines(exporter: "SpanExporter") -> "SpanExporter":
    """Replace the many log lines of the library about failures by one line a minute."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult  # noqa: PLC0415

    first_line = _FirstLineFilter()
    for name in LIBRARY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    exporter_logger = logging.getLogger(type(exporter).__module__)
    exporter_logger.setLevel(logging.WARNING)
    exporter_logger.addFilter(first_line)

    class QuietExporter(SpanExporter):
        def __init__(self) -> None:
            self._lost = 0
            self._said_at: float | None = None

        def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
            first_line.first = ""
            try:
                result = exporter.export(spans)
            except Exception as error:  # noqa: BLE001 (whatever the library raises, the spans are lost, and that is logged)
                first_line.first = first_line.first or f"{type(error).__name__}: {error}"
                result = SpanExportResult.FAILURE
            if result is not SpanExportResult.SUCCESS:
                self._lost += len(spans)
                self._warn_now_and_then()
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

        def _warn_now_and_then(self) -> None:
            now = time.monotonic()
            if self._said_at is None or now - self._said_at >= SECONDS_BETWEEN_WARNINGS:
                log.warning("traces could not be sent", extra={"spans": self._lost, "reason": first_line.first[:500]})
                self._lost, self._said_at = 0, now

    return QuietExporter()


class _HeaderValueFilter(logging.Filter):
    """The library logs a header that it cannot parse, and a header may be a credential."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = "a header in OTEL_EXPORTER_OTLP_HEADERS is not `name=value` and is ignored", ()
        return True


class _FirstLineFilter(logging.Filter):
    """Stores the first line that the library logs about a failure: it names the cause."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ""

    def filter(self, record: logging.LogRecord) -> bool:
        self.first = self.first or record.getMessage()
        return False


# What jobs count -----------------------------------------------------------------------------------------------------

DeliveryResult = Literal["DELIVERED", "FAILED", "RETRIED"]
ReplayVerdict = Literal["SAME", "MISMATCH", "ERROR"]
DisablingCause = Literal["FAILING", "GONE"]


class JobMetrics:
    """Counts what the jobs do. This one counts nothing: for processes that only submit jobs."""

    def record_compile(self, seconds: float, output: "CompiledPassport | None") -> None:
        """Count one execution; `output` is None if it failed."""

    def record_replay(self, verdict: ReplayVerdict) -> None:
        """Count one version that the audit replayed."""

    def record_delivery(self, result: DeliveryResult) -> None:
        """Count a delivery that ended, or an attempt that is followed by another one."""

    def record_disabled_endpoint(self, cause: DisablingCause) -> None:
        """Count a webhook endpoint that was disabled: it failed persistently, or it answered 410."""


# Metrics of several processes -------------------------------------------------------------------------------------

# Values of the whole installation, which each worker reads from the database.
INSTALLATION_WIDE: Final = ("_job_queue_depth", "_jobs_dead_letter")
CUMULATIVE_TYPES: Final = frozenset({"counter", "histogram"})

Sample = tuple[str, tuple[tuple[str, str], ...]]


def merge_metrics(texts: Iterable[bytes]) -> bytes:
    """One text with all metrics of these texts."""
    families: dict[str, Metric] = {}
    values: dict[str, dict[Sample, float]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text.decode()):
            families.setdefault(family.name, family)
            _add_samples(values.setdefault(family.name, {}), family)
    return _render_text(_build_family(families[name], samples) for name, samples in values.items())


def select_cumulative(text: bytes) -> bytes:
    """Only the metrics that never fall."""
    return _render_text(
        family for family in text_string_to_metric_families(text.decode()) if family.type in CUMULATIVE_TYPES
    )


def _add_samples(values: dict[Sample, float], family: Metric) -> None:
    is_installation_wide = family.name.endswith(INSTALLATION_WIDE)
    for sample in family.samples:
        key = sample.name, tuple(sorted(sample.labels.items()))
        previous = values.get(key, 0.0)
        values[key] = max(previous, sample.value) if is_installation_wide else previous + sample.value


def _build_family(template: Metric, values: dict[Sample, float]) -> Metric:
    family = Metric(template.name, template.documentation, template.type)
    for (name, labels), value in values.items():
        family.add_sample(name, dict(labels), value)
    return family


class _FamilyCollector(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _render_text(families: Iterable[Metric]) -> bytes:
    return generate_latest(_FamilyCollector(families))
