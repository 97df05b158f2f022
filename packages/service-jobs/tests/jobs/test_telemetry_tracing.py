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

from bpc.jobs import tracing
from bpc.jobs.context import Context, Held
from bpc.jobs.errors import JobError, LeaseLost
from bpc.jobs.handler import Handlers
from bpc.jobs.memory import MemoryEngine
from bpc.jobs.outcome import Outcome, Retry, failed, refused, released, succeeded
from bpc.jobs.testing import Notebook
from bpc.jobs.tracing import executing, submitting, traceparent_now
from tests.measuring import Measured, allowed

ACME = UUID(int=1)
HELD = Held(UUID(int=1), UUID(int=2), "report", "host:1:x", 3)
SUBMITTED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traced:
    """A provider of this test, and the spans that ended."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider
        self._exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def traced() -> Traced:
    return Traced(TracerProvider())


def test_without_a_provider_there_is_no_traceparent_and_no_span() -> None:
    with submitting("report", 2):
        assert traceparent_now() is None
    with executing(HELD, SUBMITTED) as span:
        assert not trace.get_current_span().is_recording()
        span.ended(succeeded("1"))

    assert tracing.tracer() is None


def test_an_execution_is_a_child_of_the_span_that_submitted_it(traced: Traced) -> None:
    with submitting("report", 1, provider=traced.provider):
        traceparent = traceparent_now()
    with executing(HELD, traceparent, provider=traced.provider) as span:
        span.ended(succeeded("1"))

    submit, execute = traced.spans
    assert execute.parent is not None
    assert execute.parent.span_id == context(submit).span_id
    assert context(execute).trace_id == context(submit).trace_id
    assert execute.parent.is_remote


def test_the_spans_say_what_they_are_of(traced: Traced) -> None:
    with submitting("report", 250, provider=traced.provider):
        pass
    with executing(HELD, None, provider=traced.provider) as span:
        span.ended(succeeded("1"))

    submit, execute = traced.spans
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


def test_an_execution_has_the_number_that_people_see(traced: Traced) -> None:
    with executing(HELD, None, attempt=1, provider=traced.provider):
        pass

    assert (traced.spans[0].attributes or {})["attempt"] == 1


def test_a_follow_up_belongs_to_the_span_that_wished_for_it(traced: Traced) -> None:
    @Handlers().job("report")
    async def report(ctx: Context, value: None) -> None: ...

    ctx = Context(Notebook(), HELD, max_attempts=5, traceparent=SUBMITTED)
    ctx.submit(report, None)
    with executing(HELD, SUBMITTED, provider=traced.provider):
        here = traceparent_now()
        ctx.submit(report, None)

    assert here is not None
    assert [wish.traceparent for wish in ctx.follow_ups] == [SUBMITTED, here]


async def test_a_follow_up_in_memory_is_a_child_of_the_execution_that_wished_for_it(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", traced.provider)
    handlers = Handlers()

    @handlers.job("follow", restartable=False)
    async def follow(ctx: Context, value: None) -> None: ...

    @handlers.job("lead", restartable=False)
    async def lead(ctx: Context, value: None) -> None:
        ctx.submit(follow, None)

    engine = MemoryEngine(handlers)
    engine.start()
    await engine.wait(ACME, engine.submit(lead, None, tenant=ACME, traceparent=SUBMITTED))
    [following] = engine.list(ACME, job_type="follow")
    await engine.wait(ACME, following.job_id)

    spans = {(span.attributes or {})["handler_id"]: span for span in traced.spans}
    parent = spans["follow"].parent
    assert parent is not None
    assert parent.span_id == context(spans["lead"]).span_id
    assert f"{parent.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"


def test_submitting_is_part_of_the_trace_around_it(traced: Traced) -> None:
    request = traced.provider.get_tracer("a request").start_span("POST /v1/documents")
    with trace.use_span(request), submitting("report", provider=traced.provider):
        pass

    assert traced.spans[0].parent == request.get_span_context()


def test_what_a_handler_traces_is_a_child_of_its_execution(traced: Traced) -> None:
    handler = traced.provider.get_tracer("a handler")
    with executing(HELD, SUBMITTED, provider=traced.provider), handler.start_as_current_span("query"):
        pass

    query, execute = traced.spans
    assert query.parent == execute.context
    assert f"{context(query).trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"


def test_a_traceparent_is_written_as_the_standard_says(traced: Traced) -> None:
    with executing(HELD, SUBMITTED, provider=traced.provider):
        written = traceparent_now()

    here = context(traced.spans[0])
    assert written == f"00-0af7651916cd43dd8448eb211c80319c-{here.span_id:016x}-01"


@pytest.mark.parametrize("nonsense", ["", "x", "00-0-0-0", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\x00" * 55])
def test_a_traceparent_that_is_none_starts_a_trace_of_its_own(traced: Traced, nonsense: str) -> None:
    worker = traced.provider.get_tracer("a worker")
    with worker.start_as_current_span("its own business"), executing(HELD, nonsense, provider=traced.provider):
        pass

    assert traced.spans[0].parent is None


def test_a_trace_that_was_not_sampled_stays_so() -> None:
    traced = Traced(TracerProvider(sampler=ALWAYS_OFF))
    with submitting("report", provider=traced.provider):
        traceparent = traceparent_now()
    sampling = Traced(TracerProvider())
    with executing(HELD, traceparent, provider=sampling.provider):
        pass

    assert traceparent is not None
    assert int(traceparent[-2:], 16) & trace.TraceFlags.SAMPLED == 0
    assert sampling.spans == []


@pytest.mark.parametrize(
    ("outcome", "status", "code"),
    [
        (refused(JobError(code="VALIDATION_ERROR", message="secret")), "FAILED", "VALIDATION_ERROR"),
        (
            failed(JobError.of(OSError("secret")), attempt=1, most=5, retry=Retry()),
            "RETRY",
            "INTERNAL_ERROR",
        ),
        (
            failed(JobError.of(OSError("secret")), attempt=5, most=5, retry=Retry()),
            "DEAD_LETTER",
            "INTERNAL_ERROR",
        ),
        (released(), "RELEASE", None),
    ],
)
def test_an_execution_that_failed_has_its_code_on_the_span_and_not_its_message(
    traced: Traced, outcome: Outcome, status: str, code: str | None
) -> None:
    with executing(HELD, SUBMITTED, provider=traced.provider) as span:
        span.ended(outcome)

    (execute,) = traced.spans
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
    traced: Traced, error: BaseException, code: str
) -> None:
    with pytest.raises(type(error)), executing(HELD, SUBMITTED, provider=traced.provider):
        raise error

    (execute,) = traced.spans
    assert (execute.attributes or {})["error.type"] == code
    assert execute.status.status_code is StatusCode.ERROR
    assert execute.events == ()
    assert traceparent_now() is None


async def test_jobs_that_run_side_by_side_keep_their_spans_apart(traced: Traced) -> None:
    async def run(traceparent: str) -> str | None:
        with executing(HELD, traceparent, provider=traced.provider):
            await asyncio.sleep(0)
            return traceparent_now()

    traces = [f"00-{number:032x}-{number:016x}-01" for number in range(1, 21)]
    seen = await asyncio.gather(*map(run, traces))

    assert [str(found)[:35] for found in seen] == [given[:35] for given in traces]


def test_a_provider_that_is_configured_later_is_used_from_then_on(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    with executing(HELD, SUBMITTED):
        pass
    # What `set_tracer_provider` does; it can be done only once in a process.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", traced.provider)
    with executing(HELD, SUBMITTED):
        pass

    assert [span.name for span in traced.spans] == ["job.execute"]


def test_a_provider_that_does_nothing_is_none() -> None:
    assert tracing.tracer(trace.NoOpTracerProvider()) is None


def test_without_a_provider_tracing_costs_less_than_microseconds(measured: Measured) -> None:
    def traced_job() -> None:
        with executing(HELD, None):
            pass

    reading, execution = cost(traceparent_now), cost(traced_job)

    measured("job-tracing-off", traceparent_nanoseconds=reading, execute_nanoseconds=execution)
    assert reading < allowed(1_000)
    assert execution < allowed(2_000)


def cost(call: Callable[[], object]) -> int:
    """Nanoseconds of one call, undisturbed."""

    def once() -> float:
        begun = time.perf_counter_ns()
        for _ in range(1_000):
            call()
        return (time.perf_counter_ns() - begun) / 1_000

    return round(min(once() for _ in range(20)))


def context(span: ReadableSpan) -> trace.SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found
