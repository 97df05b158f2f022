"""Traces of requests: the span of a request is a child of whatever its sender was doing, and parent of the jobs it
submits. Without a tracer provider no span is made, and what the sender said is still passed on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from opentelemetry import context, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers

SCOPE: Final = "bpc.api"
W3C: Final = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class Serving:
    """The span of one request; it says which route, never which path."""

    span: trace.Span
    traceparent: str | None

    def answered(self, method: str, route: str | None, status: int) -> None:
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
def serving(headers: Headers) -> Iterator[Serving]:
    """Around one request. `traceparent` is that of its span, for the answer."""
    given = W3C.extract({"traceparent": headers.get("traceparent", "")}, context.Context())
    span = trace.get_tracer(SCOPE).start_span("request", context=given, kind=trace.SpanKind.SERVER)
    token = context.attach(trace.set_span_in_context(span, given))
    try:
        carrier: dict[str, str] = {}
        W3C.inject(carrier)
        yield Serving(span, carrier.get("traceparent"))
    finally:
        span.end()
        context.detach(token)
