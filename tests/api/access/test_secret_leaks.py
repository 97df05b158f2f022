"""Secrets stay where they belong: sent in the right place and in every wrong one, none of them turns up again.

Looked at: everything logged at debug level, as JSON and as readable lines, the metrics, every answer, and every row of
every table. What shows a secret on purpose is named here: the answer that makes a key or a webhook secret, once, and
the column that webhooks are signed from.
"""

from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from pydantic import SecretStr

from bpc.core.api_keys import ENTROPY_BYTES, ApiKeySecret
from bpc.runtime import clock
from bpc.storage.evidence import documents
from tests.api.conftest import PEPPER, SEED, Api
from tests.api.filled_tenants import LogCapture, TwoTenantApp, capture_logs, open_two_tenants
from tests.api.route_inventory import ROUTES, Route, prepare_request
from tests.fixtures import TestServer
from tests.storage.catalogue import fetch_rows, list_tenant_tables

pytestmark = pytest.mark.asyncio(loop_scope="module")

DATABASE_PASSWORD = "Pw-of-the-database-7f3a9c"
STRANGERS_KEY = ApiKeySecret.generate(bytes(range(200, 200 + ENTROPY_BYTES))).text
WEBHOOK_SECRET = "whsec_" + b64encode(bytes(range(50, 82))).decode()
SECRETS = {
    "the pepper": PEPPER.decode(),
    "the pepper, base64": b64encode(PEPPER).decode(),
    "the pepper, hex": PEPPER.hex(),
    "the signing seed, base64": b64encode(SEED).decode(),
    "the signing seed, hex": SEED.hex(),
    "the database's password": DATABASE_PASSWORD,
    "a key of somebody": STRANGERS_KEY,
    "a webhook secret": WEBHOOK_SECRET,
}
# Where a secret is kept because it is needed: webhooks are signed with it.
KEPT = {"webhook_endpoints"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two_tenants(
    server: TestServer, template_name: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TwoTenantApp]:
    folder = tmp_path_factory.mktemp("stage")
    async with open_two_tenants(server, template_name, folder, db_password=SecretStr(DATABASE_PASSWORD)) as opened:
        yield opened


@pytest.fixture(params=[True, False], ids=["JSON", "readable"])
def log_capture(request: pytest.FixtureRequest) -> Iterator[LogCapture]:
    with capture_logs("debug", as_json=request.param) as out:
        yield out


class SecretScan:
    """What came back, and which of it showed a secret."""

    def __init__(self, two_tenants: TwoTenantApp) -> None:
        self.secrets = {
            **SECRETS,
            **{f"the key of {role}": str(api.key) for role, api in two_tenants.own.clients.items()},
        }
        self.found: list[str] = []
        self.answers = 0

    def look(self, where: str, text: str) -> None:
        self.found += [f"{name} in {where}" for name, secret in self.secrets.items() if secret in text]

    def answer(self, where: str, answer: httpx2.Response) -> None:
        self.answers += 1
        assert answer.status_code < 500 or "INTERNAL_ERROR" in answer.text, (where, answer.text)
        self.look(f"the answer to {where}: {answer.text[:300]}", f"{answer.headers}\n{answer.text}")


async def test_no_secret_turns_up_anywhere_however_wrongly_it_was_sent(
    two_tenants: TwoTenantApp, log_capture: LogCapture
) -> None:
    seen, admin = SecretScan(two_tenants), two_tenants.own.clients["Admin"]
    # Each form of log sees the half of the routes, and each route one of the secrets.
    for number, route in list(enumerate(ROUTES))[log_capture.as_json :: 2]:
        name, secret = list(SECRETS.items())[number // 2 % len(SECRETS)]
        for place, how in _misplace_secret(route, two_tenants, admin, secret):
            seen.answer(f"{route.name} with {name} in {place}", await two_tenants.http.request(**how))
    assert seen.answers > 5 * len(ROUTES) // 2

    await _scan_everything(two_tenants, seen, log_capture)

    assert seen.found == []


async def test_a_secret_that_was_just_made_is_in_the_answer_and_nowhere_else(
    two_tenants: TwoTenantApp, log_capture: LogCapture
) -> None:
    seen, admin, secret_count = SecretScan(two_tenants), two_tenants.own.clients["Admin"], 0
    for route in ROUTES:
        if route.secret is None:
            continue
        sent = prepare_request(route, two_tenants.own.ids, await _make_subject(two_tenants, route))
        key = str(clock.new_id())
        first = await admin.send(sent.method, sent.path, sent.body, idempotency_key=key)
        assert first.status_code < 300, first.text
        new_secret = next(first.json()[member] for member in ("api_key", "secret", "code") if member in first.json())
        seen.secrets[f"what {route.name} showed"] = new_secret
        seen.secrets[f"what {route.name} showed, bare"] = new_secret.removeprefix("whsec_")
        secret_count += 1
        seen.answer(f"{route.name} again", await admin.send(sent.method, sent.path, sent.body, idempotency_key=key))
        if new_secret.startswith("bpc_"):  # used at once, as one does
            seen.answer(f"{route.name}, its key", await Api(two_tenants.http, new_secret).get("/v1/passports"))
    assert secret_count >= 4

    for route in ROUTES:
        if route.method == "GET" and route.takes_key:
            sent = prepare_request(route, two_tenants.own.ids)
            seen.answer(route.name, await admin.get(sent.path, params=sent.query))
    await _scan_everything(two_tenants, seen, log_capture)

    assert seen.found == []


async def _make_subject(two_tenants: TwoTenantApp, route: Route) -> dict[str, str]:
    """What a route can be called with only once: a request that waits."""
    if "view_request_id" not in route.parameters:
        return {}
    ids, form = two_tenants.own.ids, {"audience": "interest", "name": "A", "contact": "B", "purpose": "C"}
    await two_tenants.http.post(f"/p/{ids['public_passport_id']}/access/requests", data=form)
    answer = await two_tenants.own.clients["Admin"].get_json("/v1/view-requests", params={"status": "PENDING"})
    return {"view_request_id": answer["items"][0]["view_request_id"]}


async def test_an_error_that_holds_secrets_is_told_without_them(
    two_tenants: TwoTenantApp, log_capture: LogCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, admin = SecretScan(two_tenants), two_tenants.own.clients["Admin"]

    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError(
            f"could not reach postgresql://bpc:{DATABASE_PASSWORD}@db/bpc with password={DATABASE_PASSWORD},"
            f" Authorization: Bearer {admin.key}, secret {WEBHOOK_SECRET}"
        )

    monkeypatch.setattr(documents, "create_document", broken)
    answer = await admin.post("/v1/documents", {"kind": "BOM"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "INTERNAL_ERROR")
    assert "RuntimeError" not in answer.text
    assert "RuntimeError" in log_capture.getvalue()
    seen.answer("a route that is broken", answer)
    seen.look("the log", log_capture.getvalue())
    assert seen.found == []


async def _scan_everything(two_tenants: TwoTenantApp, seen: SecretScan, log: LogCapture) -> None:
    """In everything that outlives a request."""
    assert log.getvalue().count("request completed") >= seen.answers // 2
    seen.look("the log", log.getvalue())
    seen.look("the metrics", (await two_tenants.http.get("/v1/metrics")).text)
    for table in await list_tenant_tables(two_tenants.superuser):
        if table in KEPT:
            continue
        for tenant_data in (two_tenants.own, two_tenants.foreign):
            for row in await fetch_rows(two_tenants.superuser, table, tenant_data.tenant):
                seen.look(f"a row of {table}", row)


def _misplace_secret(
    route: Route, two_tenants: TwoTenantApp, admin: Api, secret: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """A request for each place where a secret does not belong. None of them may succeed with it."""
    sent = prepare_request(route, two_tenants.own.ids)
    headers = {"Authorization": f"Bearer {admin.key}", "Idempotency-Key": str(clock.new_id())}
    right = {"method": sent.method, "url": sent.path, "params": dict(sent.query), "headers": headers}
    yield "a parameter's name", {**right, "params": {**sent.query, secret: "1"}}
    yield "a parameter", {**right, "params": {**sent.query, "limit": secret, "cursor": secret}}
    yield "the correlation id", {**right, "headers": {**headers, "X-Correlation-Id": secret}, "params": {"no": "1"}}
    yield "the traceparent", {**right, "headers": {**headers, "traceparent": secret}, "params": {"no": "1"}}
    yield "the scheme", {**right, "headers": {**headers, "Authorization": f"{secret} x"}}
    yield "the key", {**right, "headers": {**headers, "Authorization": f"Bearer {secret}"}}
    yield "a cookie", {**right, "headers": {"Cookie": f"session={secret}"}}
    yield "the Idempotency-Key", {**right, "headers": {**headers, "Idempotency-Key": f"{secret} {secret}"}}
    yield "the content type", {**right, "headers": {**headers, "Content-Type": secret}, "content": b"{}"}
    if (
        sent.content is not None
    ):  # any bytes are a document, and any path is a reference: they are the sender's to choose
        return
    for name in route.parameters:
        yield f"{name} of the path", {**right, "url": route.path.replace(f"{{{name}}}", secret.replace("/", "%2F"))}
    yield "another path", {**right, "url": f"{sent.path}/{secret}"}
    if route.kind in {"write", "ask"}:
        yield "a body that is no JSON", {**right, "json": None, "content": secret, "headers": {**headers, **_JSON}}
        yield "a member's name", {**right, "json": {**(sent.body or {}), secret: 1}}
        yield "a body that is no object", {**right, "json": [secret]}
        for member in sent.body or {}:
            yield f"{member} of the body", {**right, "json": {**sent.body, member: {"secret": [secret]}}}


_JSON = {"Content-Type": "application/json"}
