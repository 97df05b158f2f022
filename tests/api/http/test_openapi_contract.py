"""The OpenAPI document is the truth: whatever it says one may send, and much that it does not, is answered as it says.

schemathesis makes the calls, in four phases: the examples of the document, every boundary of every schema, random
requests, and sequences in which answers feed requests. A server on a real socket answers them. For every answer: no
5xx, a status the document names, its content type, its schema. Ids are those of a stage now and then, so that calls
get further than "there is no such thing".
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import Any
from uuid import UUID

import httpx2
import pytest
import schemathesis
from schemathesis.engine import events, from_schema
from schemathesis.hooks import GLOBAL_HOOK_DISPATCHER

from bpc.api.http.server import listen
from bpc.runtime import clock
from tests.api.filled_tenants import capture_logs, open_two_tenants
from tests.api.route_inventory import ROUTES
from tests.api.tenant_data import FilledTenant
from tests.fixtures import TestServer
from tests.measurements import RecordMeasurement, choose_effort

CALLS = choose_effort(test=60, shown=20_000, campaign=200_000)
# Examples and boundaries come to an end by themselves; what is left is shared by the two that do not.
PHASES = ("examples", "coverage", "stateful", "fuzzing")
STATEFUL_SHARE = 10
STEPS = 6
PATIENCE = 120  # seconds: beside other tests, building the document alone can take longer than clients wait
# The boundaries of all routes are many calls: the short run takes those of every so many routes.
EVERY = choose_effort(test=60, shown=1, campaign=1)
LONG_AGO = "2020-01-01T00:00:00.000000Z"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
# Whose answers would lock us out: these routes only ever get ids that nobody calls with.
OF_PEOPLE = ("/v1/actors/", "/v1/api-keys/", "/v1/roles/")


@dataclass(slots=True)
class ContractReport:
    """What the calls of a run came to."""

    calls: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    routes: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)  # routes that succeeded at least once
    problems: dict[str, str] = field(default_factory=dict)

    def note(self, event: events.ScenarioFinished) -> None:
        for case_id, interaction in event.recorder.interactions.items():
            case = event.recorder.cases[case_id].value
            self.calls += 1
            self.routes.add(case.operation.label)
            if interaction.response is None:
                self.problems[f"{case.operation.label}: no answer"] = str(interaction.request.uri)
                continue
            self.statuses[interaction.response.status_code] += 1
            if interaction.response.status_code < 300:
                self.reached.add(case.operation.label)
        for case_id, checks in event.recorder.checks.items():
            for check in checks:
                if check.failure_info is not None:
                    failure, case = check.failure_info.failure, event.recorder.cases[case_id].value
                    self.problems.setdefault(
                        f"{case.operation.label}: {failure.title}",
                        f"{failure.message[:600]}\n{check.failure_info.code_sample[:600]}",
                    )


@contextmanager
def serve_in_thread(server: TestServer, template: str, folder: Path) -> Iterator[tuple[str, FilledTenant]]:
    """An API that answers on a socket, in a thread of its own, and the stage behind it."""
    ready: list[tuple[str, FilledTenant]] = []
    stop, is_ready = asyncio.Event(), threading.Event()
    failed: list[BaseException] = []

    async def serve() -> None:
        async with (
            open_two_tenants(server, template, folder) as two_tenants,
            listen(two_tenants.service, "127.0.0.1", 0, stop_seconds=1) as port,
        ):
            ready.append((f"http://127.0.0.1:{port}", two_tenants.own))
            is_ready.set()
            await stop.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        except BaseException as error:  # noqa: BLE001 (told to whoever waits)
            failed.append(error)
        finally:
            is_ready.set()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=run, name="api")
    thread.start()
    try:
        is_ready.wait()
        if failed:
            raise failed[0]
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
    assert failed == []


@contextmanager
def fill_calls(tenant_data: FilledTenant) -> Iterator[None]:
    """Every call gets a key that opens, an Idempotency-Key that is new, and often ids that exist."""
    chance = Random(11)

    def before_call(context: schemathesis.HookContext, case: Any, kwargs: dict[str, Any]) -> None:
        role = chance.choices(list(tenant_data.clients), [18, 1, 1])[0]
        case.headers["Authorization"] = f"Bearer {tenant_data.clients[role].key}"
        case.headers["Idempotency-Key"] = str(clock.new_id())
        of_people = case.operation.path.startswith(OF_PEOPLE)
        for name, sent_value in dict(case.path_parameters).items():
            if _is_id(sent_value) and (of_people or chance.random() < 0.7):
                case.path_parameters[name] = _pick_id(name, tenant_data, chance)
        if isinstance(case.body, dict):
            case.body = _fill_ids(case.body, tenant_data, chance)
            if "effect" in case.body and isinstance(case.body.get("policy_json", {}), dict):
                # A policy that denies everything would be obeyed.
                conditions = {"not_before": None, "not_after": LONG_AGO}
                case.body["policy_json"] = {**case.body.get("policy_json", {}), **conditions}

    schemathesis.hook(before_call)
    try:
        yield
    finally:
        GLOBAL_HOOK_DISPATCHER.unregister(before_call)


def _is_id(value: object) -> bool:
    try:
        return UUID(str(value)) is not None
    except ValueError:
        return False


def _pick_id(name: str, tenant_data: FilledTenant, chance: Random) -> str:
    """One of the stage's ids that may stand for `name`: a `snapshot_id` may be the sealed one."""
    fitting = [known for each, known in tenant_data.ids.items() if each.endswith(name.removeprefix("rule_package_"))]
    return chance.choice(fitting) if fitting else str(clock.new_id())


def _fill_ids(body: dict[str, Any], tenant_data: FilledTenant, chance: Random) -> dict[str, Any]:
    return {
        name: _pick_id(name, tenant_data, chance)
        if name.endswith("_id") and _is_id(sent_value) and chance.random() < 0.8
        else sent_value
        for name, sent_value in body.items()
    }


def _make_config(phase: str, calls: int) -> schemathesis.Config:
    examples = calls // (STATEFUL_SHARE * STEPS) if phase == "stateful" else calls // len(ROUTES)
    return schemathesis.Config.from_dict(
        {
            "seed": 20270218 + calls,
            "checks": {"enabled": False, **{check: {"enabled": True} for check in CHECKS}},
            "generation": {
                "max-examples": max(1, examples),
                "no-shrink": True,
                "with-security-parameters": False,
                "database": "none",
            },
            "phases": {name: {"enabled": name == phase} for name in PHASES},
            "continue-on-failure": True,
            "request-timeout": PATIENCE,
        }
    )


def _run_phase(url: str, phase: str, calls: int, report: ContractReport) -> None:
    """One phase, of about so many calls where it has no end of its own."""
    document = httpx2.get(f"{url}/v1/openapi.json", timeout=PATIENCE).json()
    if phase == "coverage":
        document["paths"] = dict(sorted(document["paths"].items())[::EVERY])
    config = _make_config(phase, calls)
    config.projects.default.update(base_url=url)
    schema = schemathesis.openapi.from_dict(document, config=config)
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            report.note(event)
        elif isinstance(event, events.NonFatalError):
            report.problems[f"{event.label}: {event.info.title}"] = str(event.value)[:600]
        elif isinstance(event, events.FatalError):
            raise event.exception


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_every_answer_is_one_that_the_document_describes(
    server: TestServer, template_name: str, tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    report = ContractReport()
    with (
        capture_logs("error") as log,
        serve_in_thread(server, template_name, tmp_path) as (url, tenant_data),
        fill_calls(tenant_data),
    ):
        for phase in PHASES:
            _run_phase(url, phase, max(0, CALLS - report.calls), report)
        while report.calls < CALLS:  # routes with little to choose from run out of new requests
            _run_phase(url, "fuzzing", CALLS - report.calls, report)

    record_measurement(
        "api-contract",
        calls=report.calls,
        routes=len(report.routes),
        routes_that_succeeded=len(report.reached),
        server_errors=sum(count for status, count in report.statuses.items() if status >= 500),
        violations=len(report.problems),
    )
    problem_texts = [f"{name}\n{what}" for name, what in report.problems.items()]
    assert report.problems == {}, "\n\n".join([*problem_texts, log.getvalue()[-5_000:]])
    assert len(report.reached) >= len(report.routes) / 2, "too few calls got anywhere to say anything"
