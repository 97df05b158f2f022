"""Traces: a job's executions are children of the span that submitted it, in whatever process they run.

    with submitting("report", 1):                                    span `job.submit`
        traceparent = traceparent_now()                              stored with the job
    ...
    with executing(held, traceparent) as span:                       span `job.execute`
        span.ended(await execute(...))

Nothing is traced until the service configures a tracer provider, and until then nothing is paid for it. Traces leave
the house: a span says how a job ended and with which code, never with which message or for whom.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from bpc.jobs.errors import JobError
from bpc.jobs.outcome import Outcome

if TYPE_CHECKING:
    from bpc.jobs.context import Held  # which looks up the current span here

SCOPE: Final = "bpc.jobs"
W3C: Final = TraceContextTextMapPropagator()


class Span(Protocol):
    """What is told to the span of an execution."""

    def ended(self, outcome: Outcome) -> None: ...


class _Silent:
    """The span of an execution that nobody traces."""

    __slots__ = ()

    def ended(self, outcome: Outcome) -> None:
        pass


class _Recorded:
    __slots__ = ("_span",)

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def ended(self, outcome: Outcome) -> None:
        self._span.set_attribute("status", outcome.ending.value)
        if outcome.error is not None:
            _mark(self._span, outcome.error.code)


UNTRACED: Final[AbstractContextManager[Span]] = nullcontext(_Silent())


def traceparent_now() -> str | None:
    """The current span as a W3C `traceparent`; None if there is none."""
    span = trace.get_current_span()
    if span is trace.INVALID_SPAN:
        return None
    here = span.get_span_context()
    if not here.is_valid:
        return None
    # https://www.w3.org/TR/trace-context/ 3.2: version, trace, parent, flags
    return f"00-{here.trace_id:032x}-{here.span_id:016x}-{here.trace_flags:02x}"


def tracer(provider: trace.TracerProvider | None = None) -> trace.Tracer | None:
    """Who makes spans: of `provider`, or of the one the service configured; None while there is none."""
    found = (provider or _configured()).get_tracer(SCOPE)
    return None if isinstance(found, trace.ProxyTracer | trace.NoOpTracer) else found


def submitting(
    job_type: str, count: int = 1, *, provider: trace.TracerProvider | None = None
) -> AbstractContextManager[Span]:
    """The span `job.submit`, for `count` jobs of one type."""
    if (using := tracer(provider)) is None:
        return UNTRACED
    return _current(
        using.start_span(
            "job.submit",
            kind=trace.SpanKind.PRODUCER,
            attributes={"handler_id": job_type, "job_count": count},
        )
    )


def executing(
    held: "Held",
    traceparent: str | None,
    *,
    attempt: int | None = None,
    provider: trace.TracerProvider | None = None,
) -> AbstractContextManager[Span]:
    """The span `job.execute`, a child of the span in `traceparent`, or the first of a trace if that names none.

    `attempt` is the number that people see, which a redrive sets back; without it, it is that of the lease.
    """
    if (using := tracer(provider)) is None:
        return UNTRACED
    return _current(
        using.start_span(
            "job.execute",
            # Not of the span we happen to be in: a worker's own has nothing to do with the job.
            context=W3C.extract({"traceparent": traceparent or ""}, Context()),
            kind=trace.SpanKind.CONSUMER,
            attributes={
                "job_id": str(held.job_id),
                "handler_id": held.type,
                "attempt": held.attempt if attempt is None else attempt,
            },
        )
    )


@cache
def _configured() -> trace.TracerProvider:
    """Without a provider this is a proxy of the one to come, so asking once is enough, and asking is slow."""
    return trace.get_tracer_provider()


@contextmanager
def _current(span: trace.Span) -> Iterator[Span]:
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield _Recorded(span)
        except Exception as error:
            _mark(span, JobError.of(error).code)
            raise
        except BaseException as error:  # cancelled: by whom and why is not known here
            _mark(span, type(error).__name__)
            raise


def _mark(span: trace.Span, code: str) -> None:
    span.set_attribute("error.type", code)
    span.set_status(trace.StatusCode.ERROR, code)
