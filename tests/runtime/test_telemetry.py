"""Traces go to a collector that the environment names: one trace from a request to its last job, nothing secret in it,
and a collector that is away costs nobody anything.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import httpx2
import pytest
from bpc_client import Client
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from prometheus_client.parser import text_string_to_metric_families
from service_jobs import Metrics

from bpc.runtime.telemetry import _limit_failure_lines, is_tracing_enabled, merge_metrics, select_cumulative
from tests.cli.program import Program, start_command
from tests.journey.compile_ready import prepare_compile
from tests.measurements import allow_seconds
from tests.runtime.collector import run_collector

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "mine"}, False),
        (COLLECTOR, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (COLLECTOR | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (COLLECTOR | {"OTEL_TRACES_EXPORTER": "console"}, False),
        (COLLECTOR | {"OTEL_SDK_DISABLED": "true"}, False),
        (COLLECTOR | {"OTEL_SDK_DISABLED": "false"}, True),
        (COLLECTOR | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
        (COLLECTOR | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
        (COLLECTOR | {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, False),
    ],
)
def test_the_standard_variables_decide(environment: dict[str, str], *, expected: bool) -> None:
    assert is_tracing_enabled(environment) is expected


def test_what_is_asked_for_and_not_spoken_here_is_said(caplog: pytest.LogCaptureFixture) -> None:
    is_tracing_enabled(COLLECTOR | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    is_tracing_enabled({"OTEL_TRACES_EXPORTER": "zipkin,otlp"})

    assert [record.getMessage() for record in caplog.records if record.name != "asyncio"] == [
        "no traces are sent: the only protocol is http/protobuf",
        "traces are sent by OTLP only",
    ]


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python of its own: a process has one tracer provider in its life. One that hangs says where."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    program = "import faulthandler; faulthandler.dump_traceback_later(150, exit=True)\n" + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", program],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


@pytest.mark.long
def test_where_nothing_is_set_nothing_is_imported_and_no_span_is_made() -> None:
    done = run("""
        import os, sys
        import bpc.cli.run.api, bpc.cli.run.worker
        from bpc.runtime.telemetry import trace_to_collector
        from service_jobs.telemetry import UNTRACED, trace_submit
        with trace_to_collector("bpc-api", os.environ):
            assert trace_submit("report") is UNTRACED
        heavy = ("opentelemetry.sdk", "opentelemetry.exporter", "google.protobuf", "requests")
        print([name for name in heavy if name in sys.modules])
    """)

    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_spans_are_sent_at_the_end_as_the_environment_says() -> None:
    with run_collector() as collector:
        done = run(
            """
            import os
            from opentelemetry import trace
            from bpc.runtime.telemetry import trace_to_collector
            with trace_to_collector("bpc-api", os.environ):
                with trace.get_tracer("test").start_as_current_span("kept"):
                    pass
            """,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_EXPORTER_OTLP_HEADERS="x-tenant=7",
            OTEL_SERVICE_NAME="passports",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
        )

    assert (done.returncode, done.stderr) == (0, "")
    (span,) = collector.spans
    assert (span["name"], span["service"]) == ("kept", "passports")
    assert span["resource"]["deployment.environment.name"] == "test"
    assert collector.heads[0]["x-tenant"] == "7"


def test_a_sampler_that_drops_everything_sends_no_spans() -> None:
    with run_collector() as collector:
        done = run(
            """
            import os
            from opentelemetry import trace
            from bpc.runtime.telemetry import trace_to_collector
            with trace_to_collector("bpc-api", os.environ):
                with trace.get_tracer("test").start_as_current_span("not kept"):
                    pass
            """,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_TRACES_SAMPLER="always_off",
        )

    assert (done.returncode, done.stderr, collector.spans) == (0, "", [])


AWAY = """
    import logging, os, sys, threading, time
    from opentelemetry import trace
    from bpc.runtime import logs
    from bpc.runtime.telemetry import trace_to_collector
    logs.configure(level="info", json=True, component="api", stream=sys.stderr)
    warned = threading.Event()
    watcher = logging.Handler()
    watcher.emit = lambda record: warned.set()
    logging.getLogger("bpc.runtime.telemetry").addHandler(watcher)
    longest, begun = 0.0, time.perf_counter()
    with trace_to_collector("bpc-api", os.environ):
        tracer = trace.get_tracer("test")
        while time.perf_counter() - begun < 0.8:
            for _ in range(200):
                before = time.perf_counter()
                tracer.start_span("lost").end()
                longest = max(longest, time.perf_counter() - before)
            time.sleep(0.01)
        warned.wait(60)
        stopping = time.perf_counter()
    print(longest, time.perf_counter() - stopping)
"""


class LosingExporter(SpanExporter):
    """Loses what it is given: it says so, or raises."""

    def __init__(self, *, raises: bool) -> None:
        self.raises = raises

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.raises:
            raise OSError("no route to the collector")
        return SpanExportResult.FAILURE


@pytest.mark.parametrize("raises", [False, True])
def test_spans_that_are_lost_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture, *, raises: bool) -> None:
    exporter = _limit_failure_lines(LosingExporter(raises=raises))

    results = [exporter.export([]), exporter.export([])]

    assert results == [SpanExportResult.FAILURE] * 2
    assert [record.message for record in caplog.records if record.name != "asyncio"] == ["traces could not be sent"]


@pytest.mark.long  # it waits for timeouts of a library and its threads, which a busy machine stretches
@pytest.mark.parametrize("hangs", [False, True])
def test_an_unreachable_or_hanging_collector_delays_nothing_and_is_logged_once(*, hangs: bool) -> None:
    with run_collector() as collector:
        collector.hangs.set()
        done = run(
            AWAY,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url if hangs else "http://127.0.0.1:9",
            OTEL_EXPORTER_OTLP_TIMEOUT="2",
            OTEL_BSP_SCHEDULE_DELAY="100",
        )
        collector.stopped.set()

    assert done.returncode == 0, done.stderr
    longest, stopping = (float(text) for text in done.stdout.split())
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert longest < allow_seconds(0.5)  # a span is put into a queue; the rest is a machine that is busy
    assert stopping < allow_seconds(8)
    failed = [line for line in lines if line["msg"] == "traces could not be sent"]
    [line] = failed
    assert line["spans"] > 0
    assert line["reason"]
    assert {line["level"] for line in lines} == {"warn"}
    assert {line["logger"] for line in lines} == {"bpc.runtime.telemetry"}


def test_one_trace_goes_from_the_client_through_the_request_to_its_job(run_folder: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="traced-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    with run_collector() as collector:
        settings = {
            "BPC_LOG_LEVEL": "error",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_TRACES_SAMPLER": "parentbased_always_off",  # only what its sender traces
        }
        with start_command(Program(folder, settings), "up", "--port", "0") as (process, ready):
            version = asyncio.run(_compile_passport(ready["url"], ready["api_key"]))
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)

    assert (process.returncode, err) == (0, "")
    spans = {(span["name"], span["attributes"].get("handler_id")): span for span in collector.spans}
    request = spans["POST /v1/passports/{passport_id}/compile", None]
    job = spans["job.execute", "COMPILE_PASSPORT"]
    assert {span["trace"] for span in collector.spans} == {TRACE}
    assert request["parent"] == SPAN
    assert _list_ancestors(job, collector.spans)[-1] == request["id"]
    assert (request["service"], job["service"]) == ("bpc-api", "bpc-worker")
    # Nothing in it says who: no key, no tenant, no passport, no article.
    everything = b"".join(collector.bodies)
    tenant, key = ready["tenant_id"], ready["api_key"]
    for word in (key, key.split("_")[1], tenant, str(version), "SKU-123", "First"):
        assert word.encode() not in everything, word


async def _compile_passport(url: str, key: str) -> UUID:
    async with Client(url, key) as bpc:
        ready_passport = await prepare_compile(bpc)
        async with httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as http:
            answer = await http.post(
                f"/v1/passports/{ready_passport.passport_id}/compile",
                json={
                    "snapshot_id": str(ready_passport.snapshot_id),
                    "rule_package_version_id": str(ready_passport.rule_package_version_id),
                },
                headers={"Idempotency-Key": "traced", "traceparent": f"00-{TRACE}-{SPAN}-01"},
            )
        assert answer.status_code == 202, answer.text
        version = UUID(answer.json()["passport_version_id"])
        await bpc.wait_until(lambda: bpc.get_qr_code(version), lambda code: bool(code.content), seconds=120)
    return version


def _list_ancestors(span: dict[str, str], spans: list[dict[str, str]]) -> list[str]:
    """The ids above it, up to the first that was made here."""
    by_id = {candidate["id"]: candidate for candidate in spans}
    ancestors = []
    while (parent := by_id.get(span["parent"])) is not None:
        ancestors.append(parent["id"])
        span = parent
    return ancestors


@pytest.mark.parametrize(
    "mistyped",
    [
        {"OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
        {"OTEL_EXPORTER_OTLP_COMPRESSION": "foo"},
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "abc"},
        {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "-3"},
    ],
)
def test_a_mistyped_variable_does_not_stop_the_program(mistyped: dict[str, str]) -> None:
    done = run(
        """
        import os
        from bpc.runtime.telemetry import trace_to_collector
        with trace_to_collector("bpc-api", os.environ):
            print("serves")
        """,
        **{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"} | mistyped,
    )

    assert (done.stdout, done.returncode) == ("serves\n", 0)
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1  # which says so


def test_a_header_that_is_mistyped_is_not_quoted() -> None:
    done = run(
        """
        import os
        from bpc.runtime.telemetry import trace_to_collector
        with trace_to_collector("bpc-api", os.environ):
            pass
        """,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_HEADERS="x-team: hunter2",
    )

    assert done.stderr == "a header in OTEL_EXPORTER_OTLP_HEADERS is not `name=value` and is ignored\n"


def parse_samples(text: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def count_some_work(metrics: Metrics, *, times: int, depth: int) -> None:
    metrics.count_enqueued("a", times)
    metrics.change_running("a", 1)
    metrics.count_finished("a", "SUCCEEDED", times, [0.2] * times)
    metrics.observe_depth({"a": depth})
    metrics.observe_dead_letters({"a": depth})


@pytest.fixture
def two_metrics() -> tuple[Metrics, Metrics]:
    one, other = Metrics("bpc"), Metrics("bpc")
    one.expect_types(["a", "b"])
    count_some_work(one, times=3, depth=7)
    count_some_work(other, times=4, depth=6)
    return one, other


def test_counts_and_durations_add_up_and_what_is_read_from_the_database_does_not(
    two_metrics: tuple[Metrics, Metrics],
) -> None:
    merged = parse_samples(merge_metrics(metrics.render_text() for metrics in two_metrics))

    assert merged["bpc_jobs_enqueued_total", ("a",)] == 7
    assert merged["bpc_jobs_enqueued_total", ("b",)] == 0
    assert merged["bpc_jobs_running", ("a",)] == 2
    assert merged["bpc_job_duration_seconds_count", ("a",)] == 7
    assert merged["bpc_job_duration_seconds_sum", ("a",)] == pytest.approx(1.4)
    assert merged["bpc_job_queue_depth", ("a",)] == 7
    assert merged["bpc_jobs_dead_letter", ("a",)] == 7


def test_the_figures_of_one_are_those_of_one(two_metrics: tuple[Metrics, Metrics]) -> None:
    assert merge_metrics([two_metrics[0].render_text()]) == two_metrics[0].render_text()
    assert merge_metrics([two_metrics[0].render_text(), b""]) == two_metrics[0].render_text()
    assert merge_metrics([]) == b""


def test_every_family_is_described_once(two_metrics: tuple[Metrics, Metrics]) -> None:
    lines = merge_metrics(metrics.render_text() for metrics in two_metrics).decode().splitlines()
    described = [line for line in lines if line.startswith("#")]

    assert len(described) == len(set(described))


def test_of_a_process_that_is_gone_only_what_it_counted_is_left(two_metrics: tuple[Metrics, Metrics]) -> None:
    left = parse_samples(select_cumulative(two_metrics[0].render_text()))

    assert left["bpc_jobs_enqueued_total", ("a",)] == 3
    assert left["bpc_job_duration_seconds_count", ("a",)] == 3
    assert not {"bpc_jobs_running", "bpc_job_queue_depth"} & {name for name, _ in left}
