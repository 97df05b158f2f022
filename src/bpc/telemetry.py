"""Traces for a collector, where the environment names one: OTLP over HTTP, by OpenTelemetry's own variables.

    with traced("bpc-api", os.environ):      spans made inside are sent in batches, from a thread of their own
        ...                                  the end waits for the last batch, and not for long

    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or OTEL_TRACES_EXPORTER=otlp    switch it on
    OTEL_SDK_DISABLED=true, or OTEL_TRACES_EXPORTER=none                                             switch it off
    OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_*, …                  are read by the SDK

Where nothing is set, nothing is imported and no span is made. A collector that is away, slow or wrong costs spans and
now and then a line in the log, never a request or a job. What is in a span is decided where it is made: templates of
routes, types of jobs, statuses and codes. Child processes that compute are new ones, not copies, and trace nothing.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from bpc import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN: Final = "http/protobuf"
FAREWELL: Final = 3.0  # seconds that the last batch may take
QUIET: Final = 60.0  # seconds between two lines about a collector that does not take spans
HEADERS: Final = "opentelemetry.util.re"  # the logger of whatever reads headers from the environment
LIBRARIES: Final = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal", "urllib3")

log = logging.getLogger(__name__)


@contextmanager
def traced(service: str, environment: Mapping[str, str]) -> Iterator[None]:
    """Send spans to the collector that `environment` names, if it names one, as `service` unless that is named too.

    Once in the life of a process.
    """
    if not is_wanted(environment):
        yield
        return
    made = _made(service)
    try:
        yield
    finally:
        if made is not None:
            _farewell(*made)


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether spans are to be sent. What is asked for and not spoken here is said, and none are."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = {name.strip() for name in environment.get("OTEL_TRACES_EXPORTER", "").split(",")} - {""}
    asked = any(environment.get(name, "").strip() for name in ENDPOINTS) if not exporters else "otlp" in exporters
    if unknown := exporters - {"otlp", "none"}:
        log.warning("traces are sent by OTLP only", extra={"not_known": sorted(unknown)})
    protocol = next((found for name in PROTOCOLS if (found := environment.get(name, "").strip())), SPOKEN)
    if asked and protocol != SPOKEN:
        log.warning("no traces are sent: the only protocol is %s", SPOKEN, extra={"asked_for": protocol})
        return False
    return asked


def _made(service: str) -> "tuple[TracerProvider, SpanExporter] | None":
    """What sends spans; None where the SDK does not understand its variables, which costs traces and nothing else."""
    try:
        return _provider(service)
    except Exception as wrong:  # noqa: BLE001 (the SDK's checks are its own, and differ between its versions)
        reason = f"{type(wrong).__name__}: {wrong}"[:500]
        log.warning("no traces are sent: OpenTelemetry does not take its settings", extra={"reason": reason})
        return None


def _provider(service: str) -> "tuple[TracerProvider, SpanExporter]":
    # Here and not above: a fifth of a second and 8 MB, for those who want it.
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    logging.getLogger(HEADERS).addFilter(_Unquoted())
    ours = Resource({"service.name": service, "service.version": __version__, "process.pid": os.getpid()})
    exporter = _quiet(OTLPSpanExporter())
    # What the environment says comes last, so that it has the last word. We end it ourselves, in bounded time.
    provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider, exporter


def _farewell(provider: "TracerProvider", exporter: "SpanExporter") -> None:
    """Send what is left. A collector that hangs does not keep us: the thread is left behind."""
    ending = threading.Thread(target=provider.shutdown, name="traces", daemon=True)
    ending.start()
    ending.join(FAREWELL)
    if ending.is_alive():
        log.warning("the last traces were not taken within %s s", FAREWELL)
        exporter.shutdown()


def _quiet(exporter: "SpanExporter") -> "SpanExporter":
    """The exporter, with one line about failures now and then in place of the many that libraries write."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult  # noqa: PLC0415

    heard = _Heard()
    for name in LIBRARIES:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    own = logging.getLogger(type(exporter).__module__)
    own.setLevel(logging.WARNING)
    own.addFilter(heard)

    class Quiet(SpanExporter):
        def __init__(self) -> None:
            self._lost = 0
            self._said_at: float | None = None

        def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
            heard.first = ""
            result = exporter.export(spans)
            if result is not SpanExportResult.SUCCESS:
                self._lost += len(spans)
                self._say()
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

        def _say(self) -> None:
            now = time.monotonic()
            if self._said_at is None or now - self._said_at >= QUIET:
                log.warning("traces were not taken", extra={"spans": self._lost, "reason": heard.first[:500]})
                self._lost, self._said_at = 0, now

    return Quiet()


class _Unquoted(logging.Filter):
    """The library quotes a header that it does not understand, and what is in there is a credential."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = "a header in OTEL_EXPORTER_OTLP_HEADERS is not `name=value`, and is left out", ()
        return True


class _Heard(logging.Filter):
    """Keeps what a library was about to log, for us to say: the first line of a failure names its cause."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ""

    def filter(self, record: logging.LogRecord) -> bool:
        self.first = self.first or record.getMessage()
        return False
