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
from pathlib import Path
from uuid import UUID

import httpx2
import pytest

from bpc.client import Client
from bpc.telemetry import is_wanted
from tests.cli.program import Program
from tests.cli.started import started
from tests.journey.compilable import compilable
from tests.telemetry.collector import collecting

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environment", "wanted"),
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
def test_the_standard_variables_decide(environment: dict[str, str], *, wanted: bool) -> None:
    assert is_wanted(environment) is wanted


def test_what_is_asked_for_and_not_spoken_here_is_said(caplog: pytest.LogCaptureFixture) -> None:
    is_wanted(COLLECTOR | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    is_wanted({"OTEL_TRACES_EXPORTER": "zipkin,otlp"})

    assert [record.getMessage() for record in caplog.records] == [
        "no traces are sent: the only protocol is http/protobuf",
        "traces are sent by OTLP only",
    ]


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python of its own: a process has one tracer provider in its life."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_where_nothing_is_set_nothing_is_imported_and_no_span_is_made() -> None:
    done = run("""
        import os, sys
        import bpc.cli.api, bpc.cli.worker
        from bpc.telemetry import traced
        from bpc.jobs.tracing import UNTRACED, submitting
        with traced("bpc-api", os.environ):
            assert submitting("report") is UNTRACED
        heavy = ("opentelemetry.sdk", "opentelemetry.exporter", "google.protobuf", "requests")
        print([name for name in heavy if name in sys.modules])
    """)

    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_spans_are_sent_at_the_end_as_the_environment_says() -> None:
    with collecting() as collector:
        done = run(
            """
            import os
            from opentelemetry import trace
            from bpc.telemetry import traced
            with traced("bpc-api", os.environ):
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


def test_a_sampler_that_wants_none_sends_none() -> None:
    with collecting() as collector:
        done = run(
            """
            import os
            from opentelemetry import trace
            from bpc.telemetry import traced
            with traced("bpc-api", os.environ):
                with trace.get_tracer("test").start_as_current_span("not kept"):
                    pass
            """,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_TRACES_SAMPLER="always_off",
        )

    assert (done.returncode, done.stderr, collector.spans) == (0, "", [])


AWAY = """
    import logging, os, sys, time
    from opentelemetry import trace
    from bpc import logs
    from bpc.telemetry import traced
    logs.configure(level="info", json=True, component="api", stream=sys.stderr)
    longest, begun = 0.0, time.perf_counter()
    with traced("bpc-api", os.environ):
        tracer = trace.get_tracer("test")
        while time.perf_counter() - begun < 0.8:
            for _ in range(200):
                before = time.perf_counter()
                tracer.start_span("lost").end()
                longest = max(longest, time.perf_counter() - before)
            time.sleep(0.01)
        stopping = time.perf_counter()
    print(longest, time.perf_counter() - stopping)
"""


@pytest.mark.parametrize("hangs", [False, True])
def test_a_collector_that_is_away_or_hangs_delays_nobody_and_is_said_once(*, hangs: bool) -> None:
    with collecting() as collector:
        collector.hangs.set()
        done = run(
            AWAY,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url if hangs else "http://127.0.0.1:9",
            OTEL_EXPORTER_OTLP_TIMEOUT="2",
            OTEL_BSP_SCHEDULE_DELAY="100",
        )
        collector.over.set()

    longest, stopping = (float(each) for each in done.stdout.split())
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert longest < 1.5  # a span is put into a queue; the rest is a machine that is busy
    assert stopping < 8
    failed = [line for line in lines if line["msg"] == "traces were not taken"]
    assert [(line["level"], line["logger"]) for line in failed] == [("warn", "bpc.telemetry")]
    assert failed[0]["spans"] > 0
    assert failed[0]["reason"]
    assert {line["logger"] for line in lines} == {"bpc.telemetry"}


def test_one_trace_goes_from_the_client_through_the_request_to_its_last_job(run_folder: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="traced-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    with collecting() as collector:
        settings = {
            "BPC_LOG_LEVEL": "error",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_TRACES_SAMPLER": "parentbased_always_off",  # only what its sender traces
        }
        with started(Program(folder, settings), "up", "--port", "0") as (process, told):
            version = asyncio.run(_compiled(told["url"], told["api_key"]))
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)

    assert (process.returncode, err) == (0, "")
    spans = {(span["name"], span["attributes"].get("handler_id")): span for span in collector.spans}
    request = spans["POST /v1/passports/{passport_id}/compile", None]
    jobs = [spans["job.execute", job] for job in ("COMPILE_PASSPORT", "SIGN_PASSPORT", "GENERATE_QR")]
    assert {span["trace"] for span in collector.spans} == {TRACE}
    assert request["parent"] == SPAN
    assert _ancestors(jobs[0], collector.spans)[-1] == request["id"]
    assert jobs[0]["id"] in _ancestors(jobs[1], collector.spans)
    assert jobs[1]["id"] in _ancestors(jobs[2], collector.spans)
    assert (request["service"], {span["service"] for span in jobs}) == ("bpc-api", {"bpc-worker"})
    # Nothing in it says who: no key, no tenant, no passport, no article.
    everything = b"".join(collector.bodies)
    tenant, key = told["tenant_id"], told["api_key"]
    for word in (key, key.split("_")[1], tenant, str(version), "SKU-123", "First"):
        assert word.encode() not in everything, word


async def _compiled(url: str, key: str) -> UUID:
    async with Client(url, key) as bpc:
        made = await compilable(bpc)
        async with httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}) as http:
            answer = await http.post(
                f"/v1/passports/{made.passport_id}/compile",
                json={
                    "snapshot_id": str(made.snapshot_id),
                    "rule_package_version_id": str(made.rule_package_version_id),
                },
                headers={"Idempotency-Key": "traced", "traceparent": f"00-{TRACE}-{SPAN}-01"},
            )
        assert answer.status_code == 202, answer.text
        version = UUID(answer.json()["passport_version_id"])
        await bpc.until(lambda: bpc.get_qr_code(version), lambda seen: bool(seen.content), seconds=120)
    return version


def _ancestors(span: dict[str, str], spans: list[dict[str, str]]) -> list[str]:
    """The ids above it, up to the first that was made here."""
    by_id = {each["id"]: each for each in spans}
    found = []
    while (parent := by_id.get(span["parent"])) is not None:
        found.append(parent["id"])
        span = parent
    return found


@pytest.mark.parametrize(
    "mistyped",
    [
        {"OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
        {"OTEL_EXPORTER_OTLP_COMPRESSION": "foo"},
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "abc"},
        {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "-3"},
    ],
)
def test_a_mistyped_variable_stops_nobody(mistyped: dict[str, str]) -> None:
    done = run(
        """
        import os
        from bpc.telemetry import traced
        with traced("bpc-api", os.environ):
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
        from bpc.telemetry import traced
        with traced("bpc-api", os.environ):
            pass
        """,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_HEADERS="x-team: hunter2",
    )

    assert done.stderr == "a header in OTEL_EXPORTER_OTLP_HEADERS is not `name=value`, and is left out\n"
