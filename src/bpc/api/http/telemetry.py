"""Metrics and traces of requests. Labels are route templates, never paths, so that no id becomes a label.

An unknown path is counted as `(none)` and an unknown method as `(other)`: nobody can create new series by trying names.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from opentelemetry import context, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from starlette.datastructures import Headers

DURATION_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNKNOWN_METHOD: Final = "(other)"
UNKNOWN_PATH: Final = "(none)"

# The library would add a `_created` series to each of ours; nobody uses them.
disable_created_metrics()  # type: ignore[no-untyped-call]


class HttpMetrics:
    """The metrics of one process, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "bpc_http_requests", "Requests answered.", ["method", "path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "bpc_http_request_duration_seconds",
            "Time until a request was answered.",
            ["method", "path"],
            buckets=DURATION_BUCKETS,
            registry=self.registry,
        )
        self.limited = Counter("bpc_rate_limited", "Requests refused by the rate limit.", registry=self.registry)
        self.unauthorized = Counter("bpc_unauthorized", "Requests without a valid key.", registry=self.registry)
        self.pool_in_use = Gauge(
            "bpc_db_pool_in_use", "Database connections in use by requests.", registry=self.registry
        )
        self.pool_size = Gauge(
            "bpc_db_pool_size", "Database connections that requests may use at once.", registry=self.registry
        )

    def record_answer(self, method: str, path: str | None, status: int, seconds: float) -> None:
        """Count an answered request; `path` is None if no route matched."""
        method, path = method if method in METHODS else UNKNOWN_METHOD, path or UNKNOWN_PATH
        self.requests.labels(method, path, str(status)).inc()
        self.seconds.labels(method, path).observe(seconds)


SCOPE: Final = "bpc.api"
W3C: Final = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """The span of one request, named by its route, never by its path."""

    span: trace.Span
    traceparent: str | None

    def record_answer(self, method: str, route: str | None, status: int) -> None:
        if not self.span.is_recording():
            return
        self.span.update_name(method if route is None else f"{method} {route}")
        self.span.set_attribute("http.request.method", method)
        self.span.set_attribute("http.response.status_code", status)
        if route is not None:
            self.span.set_attribute("http.route", route)
        if status >= 500:
            self.span.set_status(trace.StatusCode.ERROR)


@contextmanager
def start_request_span(headers: Headers) -> Iterator[RequestSpan]:
    """Start the span of a request: a child of the sender's span, and the parent of the jobs that the request submits.

    Without a tracer provider no span is made, and the sender's `traceparent` is passed on.
    """
    parent = W3C.extract({"traceparent": headers.get("traceparent", "")}, context.Context())
    span = trace.get_tracer(SCOPE).start_span("request", context=parent, kind=trace.SpanKind.SERVER)
    token = context.attach(trace.set_span_in_context(span, parent))
    try:
        carrier: dict[str, str] = {}
        W3C.inject(carrier)
        yield RequestSpan(span, carrier.get("traceparent"))
    finally:
        span.end()
        context.detach(token)
