"""A trace follows a job from where it is submitted to where it runs, and costs nothing where nobody traces."""

import asyncio
import time
from collections.abc import Callable
from uuid import UUID

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from service_jobs import telemetry
from service_jobs.context import Context, Lease
from service_jobs.execution import build_failure, build_rejection, build_release, build_success
from service_jobs.handler import Handlers
from service_jobs.job import JobError, LeaseLost, Outcome, Retry
from service_jobs.memory.engine import MemoryEngine
from service_jobs.telemetry import get_traceparent, trace_execution, trace_submit
from service_jobs.testing import InlineBackend

from tests.measurements import RecordMeasurement, allow_seconds

ACME = UUID(int=1)
HELD = Lease(UUID(int=1), UUID(int=2), "report", "host:1:x", 3)
SUBMITTED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class SpanRecorder:
    """A provider of this test, and the spans that ended."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider
        self._exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def span_recorder() -> SpanRecorder:
    return SpanRecorder(TracerProvider())


def test_without_a_provider_there_is_no_traceparent_and_no_span() -> None:
    with trace_submit("report", 2):
        assert get_traceparent() is None
    with trace_execution(HELD, SUBMITTED) as span:
        assert not trace.get_current_span().is_recording()
        span.record_outcome(build_success("1"))

    assert telemetry.get_tracer() is None


def test_an_execution_is_a_child_of_the_span_that_submitted_it(span_recorder: SpanRecorder) -> None:
    with trace_submit("report", 1, provider=span_recorder.provider):
        traceparent = get_traceparent()
    with trace_execution(HELD, traceparent, provider=span_recorder.provider) as span:
        span.record_outcome(build_success("1"))

    submit, execute = span_recorder.spans
    assert execute.parent is not None
    assert execute.parent.span_id == get_span_context(submit).span_id
    assert get_span_context(execute).trace_id == get_span_context(submit).trace_id
    assert execute.parent.is_remote


def test_the_spans_say_what_they_are_of(span_recorder: SpanRecorder) -> None:
    with trace_submit("report", 250, provider=span_recorder.provider):
        pass
    with trace_execution(HELD, None, provider=span_recorder.provider) as span:
        span.record_outcome(build_success("1"))

    submit, execute = span_recorder.spans
    assert (submit.name, submit.kind) == ("job.submit", SpanKind.PRODUCER)
    assert dict(submit.attributes or {}) == {"handler_id": "report", "job_count": 250}
    assert (execute.name, execute.kind) == ("job.execute", SpanKind.CONSUMER)
    assert dict(execute.attributes or {}) == {
        "job_id": str(HELD.job_id),
        "handler_id": "report",
        "attempt": 3,
        "status": "SUCCEEDED",
    }
    assert execute.status.status_code is StatusCode.UNSET


def test_an_execution_has_the_number_that_people_see(span_recorder: SpanRecorder) -> None:
    with trace_execution(HELD, None, attempt=1, provider=span_recorder.provider):
        pass

    assert (span_recorder.spans[0].attributes or {})["attempt"] == 1


def test_a_follow_up_belongs_to_the_span_that_wished_for_it(span_recorder: SpanRecorder) -> None:
    @Handlers().job("report")
    async def report(ctx: Context, value: None) -> None: ...

    ctx = Context(InlineBackend(), HELD, max_attempts=5, traceparent=SUBMITTED)
    ctx.submit(report, None)
    with trace_execution(HELD, SUBMITTED, provider=span_recorder.provider):
        here = get_traceparent()
        ctx.submit(report, None)

    assert here is not None
    assert [spec.traceparent for spec in ctx.follow_ups] == [SUBMITTED, here]


async def test_a_follow_up_in_memory_is_a_child_of_the_execution_that_wished_for_it(
    span_recorder: SpanRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", span_recorder.provider)
    handlers = Handlers()

    @handlers.job("follow", restartable=False)
    async def follow(ctx: Context, value: None) -> None: ...

    @handlers.job("lead", restartable=False)
    async def lead(ctx: Context, value: None) -> None:
        ctx.submit(follow, None)

    engine = MemoryEngine(handlers)
    engine.start()
    await engine.wait(ACME, engine.submit(lead, None, tenant=ACME, traceparent=SUBMITTED))
    [following] = engine.list_jobs(ACME, job_type="follow")
    await engine.wait(ACME, following.job_id)

    spans = {(span.attributes or {})["handler_id"]: span for span in span_recorder.spans}
    parent = spans["follow"].parent
    assert parent is not None
    assert parent.span_id == get_span_context(spans["lead"]).span_id
    assert f"{parent.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"


def test_submitting_is_part_of_the_trace_around_it(span_recorder: SpanRecorder) -> None:
    request = span_recorder.provider.get_tracer("a request").start_span("POST /v1/documents")
    with trace.use_span(request), trace_submit("report", provider=span_recorder.provider):
        pass

    assert span_recorder.spans[0].parent == request.get_span_context()


def test_what_a_handler_traces_is_a_child_of_its_execution(span_recorder: SpanRecorder) -> None:
    handler = span_recorder.provider.get_tracer("a handler")
    with trace_execution(HELD, SUBMITTED, provider=span_recorder.provider), handler.start_as_current_span("query"):
        pass

    query, execute = span_recorder.spans
    assert query.parent == execute.context
    assert f"{get_span_context(query).trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"


def test_a_traceparent_is_written_as_the_standard_says(span_recorder: SpanRecorder) -> None:
    with trace_execution(HELD, SUBMITTED, provider=span_recorder.provider):
        written = get_traceparent()

    here = get_span_context(span_recorder.spans[0])
    assert written == f"00-0af7651916cd43dd8448eb211c80319c-{here.span_id:016x}-01"


@pytest.mark.parametrize("nonsense", ["", "x", "00-0-0-0", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\x00" * 55])
def test_a_traceparent_that_is_none_starts_a_trace_of_its_own(span_recorder: SpanRecorder, nonsense: str) -> None:
    worker = span_recorder.provider.get_tracer("a worker")
    with (
        worker.start_as_current_span("its own business"),
        trace_execution(HELD, nonsense, provider=span_recorder.provider),
    ):
        pass

    assert span_recorder.spans[0].parent is None


def test_a_trace_that_was_not_sampled_stays_so() -> None:
    traced = SpanRecorder(TracerProvider(sampler=ALWAYS_OFF))
    with trace_submit("report", provider=traced.provider):
        traceparent = get_traceparent()
    sampling = SpanRecorder(TracerProvider())
    with trace_execution(HELD, traceparent, provider=sampling.provider):
        pass

    assert traceparent is not None
    assert int(traceparent[-2:], 16) & trace.TraceFlags.SAMPLED == 0
    assert sampling.spans == []


@pytest.mark.parametrize(
    ("outcome", "status", "code"),
    [
        (build_rejection(JobError(code="VALIDATION_ERROR", message="secret")), "FAILED", "VALIDATION_ERROR"),
        (
            build_failure(JobError.from_exception(OSError("secret")), attempt=1, max_attempts=5, retry=Retry()),
            "RETRY",
            "INTERNAL_ERROR",
        ),
        (
            build_failure(JobError.from_exception(OSError("secret")), attempt=5, max_attempts=5, retry=Retry()),
            "DEAD_LETTER",
            "INTERNAL_ERROR",
        ),
        (build_release(), "RELEASE", None),
    ],
)
def test_an_execution_that_failed_has_its_code_on_the_span_and_not_its_message(
    span_recorder: SpanRecorder, outcome: Outcome, status: str, code: str | None
) -> None:
    with trace_execution(HELD, SUBMITTED, provider=span_recorder.provider) as span:
        span.record_outcome(outcome)

    (execute,) = span_recorder.spans
    attributes = execute.attributes or {}
    assert (attributes["status"], attributes.get("error.type"), execute.status.description) == (status, code, code)
    assert execute.status.status_code is (StatusCode.ERROR if code else StatusCode.UNSET)
    assert "secret" not in execute.to_json()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LeaseLost(), "JOB_LEASE_LOST"),
        (OSError("secret"), "INTERNAL_ERROR"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
def test_an_error_that_passes_through_is_on_the_span_and_passes(
    span_recorder: SpanRecorder, error: BaseException, code: str
) -> None:
    with pytest.raises(type(error)), trace_execution(HELD, SUBMITTED, provider=span_recorder.provider):
        raise error

    (execute,) = span_recorder.spans
    assert (execute.attributes or {})["error.type"] == code
    assert execute.status.status_code is StatusCode.ERROR
    assert execute.events == ()
    assert get_traceparent() is None


async def test_jobs_that_run_side_by_side_keep_their_spans_apart(span_recorder: SpanRecorder) -> None:
    async def run(traceparent: str) -> str | None:
        with trace_execution(HELD, traceparent, provider=span_recorder.provider):
            await asyncio.sleep(0)
            return get_traceparent()

    traces = [f"00-{number:032x}-{number:016x}-01" for number in range(1, 21)]
    seen = await asyncio.gather(*map(run, traces))

    assert [str(executed_traceparent)[:35] for executed_traceparent in seen] == [
        submitted_traceparent[:35] for submitted_traceparent in traces
    ]


def test_a_provider_that_is_configured_later_is_used_from_then_on(
    span_recorder: SpanRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trace_execution(HELD, SUBMITTED):
        pass
    # What `set_tracer_provider` does; it can be done only once in a process.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", span_recorder.provider)
    with trace_execution(HELD, SUBMITTED):
        pass

    assert [span.name for span in span_recorder.spans] == ["job.execute"]


def test_a_provider_that_does_nothing_is_none() -> None:
    assert telemetry.get_tracer(trace.NoOpTracerProvider()) is None


def test_without_a_provider_tracing_costs_less_than_microseconds(record_measurement: RecordMeasurement) -> None:
    def traced_job() -> None:
        with trace_execution(HELD, None):
            pass

    reading, execution = measure_cost(get_traceparent), measure_cost(traced_job)

    record_measurement("job-tracing-off", traceparent_nanoseconds=reading, execute_nanoseconds=execution)
    assert reading < allow_seconds(1_000)
    assert execution < allow_seconds(2_000)


def measure_cost(call: Callable[[], object]) -> int:
    """Nanoseconds of one call, undisturbed."""

    def once() -> float:
        begun = time.perf_counter_ns()
        for _ in range(1_000):
            call()
        return (time.perf_counter_ns() - begun) / 1_000

    return round(min(once() for _ in range(20)))


def get_span_context(span: ReadableSpan) -> trace.SpanContext:
    span_context = span.get_span_context()
    assert span_context is not None
    return span_context
