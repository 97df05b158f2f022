"""Hosts: a tenant's domain has its pages and nothing else, and pages are under no host that nobody named."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import httpx2
import pytest
from fastapi import FastAPI

from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.api.pages import public_site
from bpc.core.audit.events import Act
from bpc.core.errors import DatabaseUnavailable, Invalid
from bpc.core.formats.ids import TenantId
from bpc.core.identifiers.addresses import parse_host
from bpc.runtime import clock
from bpc.storage.access import tenants_and_actors
from bpc.storage.access.tenants_and_actors import DomainTaken
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.passport_fixtures import create_passport_inputs, issue_version
from tests.measurements import allow_seconds

DOMAIN = "passports.acme.example"


async def assign(database: Database, tenant: TenantId, host: str | None) -> None:
    async with database.system(tenant) as conn:
        await tenants_and_actors.change_public_host(conn, tenant, host, act=Act(None, clock.now()))


@pytest.fixture
async def passport(
    admin: Api,
    service: Service,
    database: Database,
    tenant: TenantId,
    act: Act,
) -> str:
    inputs = await create_passport_inputs(admin, database, tenant, act)
    version = await issue_version(admin, service, inputs)
    await admin.post_json(f"/v1/passport-versions/{version}/activate", {}, status=200)
    return inputs.passport


async def test_a_domain_has_the_pages_of_its_tenant_and_no_api(
    app: FastAPI, admin: Api, database: Database, tenant: TenantId, passport: str
) -> None:
    host = {"Host": DOMAIN}
    assert (await admin.http.get(f"/p/{passport}", headers=host)).headers["link"].startswith(f"<http://{DOMAIN}/p/")

    await assign(database, tenant, DOMAIN)
    await app.state.public_hosts.read()
    page = await admin.http.get(f"/p/{passport}", headers={"Host": f"{DOMAIN.upper()}:8080"})
    assert page.status_code == 200
    assert f'href="http://{DOMAIN}/p/{passport}"' in page.text
    for path in ("/verify", "/.well-known/gs1resolver", "/.well-known/bpc-keys.json"):
        assert (await admin.http.get(path, headers=host)).status_code == 200
    assert (await admin.http.get("/.well-known/gs1resolver", headers=host)).json()["resolverRoot"] == f"http://{DOMAIN}"
    for path in (
        "/v1/passports",
        "/v1/docs",
        "/v1/openapi.json",
        "/console",
        "/console/",
        "/",
        "/v1",
        "//v1/passports",
    ):
        answer = await admin.get(path, headers=host)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND"), path
    assert (await admin.get("/v1/passports")).status_code == 200
    assert (await admin.http.get("/v1/health/live", headers=host)).status_code == 200


async def test_passports_of_others_are_not_under_a_domain(
    app: FastAPI, admin: Api, database: Database, other_tenant: TenantId, passport: str
) -> None:
    await assign(database, other_tenant, DOMAIN)
    await app.state.public_hosts.read()

    for path in (f"/p/{passport}", f"/p/{passport}/v/{clock.new_id()}", "/01/09521234000013"):
        assert (await admin.http.get(path, headers={"Host": DOMAIN})).status_code == 404
    assert (await admin.http.get(f"/p/{passport}")).status_code == 200


async def test_pages_are_under_no_host_that_nobody_named(
    service: Service, database: Database, tenant: TenantId, passport: str
) -> None:
    settings = service.settings.model_copy(update={"public_url": "https://passports.example"})
    named = replace(service, settings=settings)
    await assign(database, tenant, DOMAIN)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(create_app(named)), base_url="http://x") as http:
        statuses = {
            host: (await http.get(f"/p/{passport}", headers={"Host": host})).status_code
            for host in ("passports.example", "PASSPORTS.example:443", DOMAIN, "localhost", "evil.example", "[::1", "")
        }
        refused = await http.get("/verify", headers={"Host": "evil.example"})
        api = await http.get("/v1/openapi.json", headers={"Host": "api.internal"})
        own = await http.get(f"/p/{passport}", headers={"Host": DOMAIN})
        two = await http.get(f"/p/{passport}", headers=[("Host", "passports.example"), ("Host", DOMAIN)])

    assert statuses == {
        "passports.example": 200,
        "PASSPORTS.example:443": 200,
        DOMAIN: 200,
        "localhost": 200,
        "evil.example": 421,
        "[::1": 421,
        "": 421,
    }
    assert refused.json()["error"]["code"] == "MISDIRECTED_REQUEST"
    assert two.status_code == 421, "a cache may have taken the other one"
    assert api.status_code == 200
    assert f"https://{DOMAIN}/p/{passport}" in own.text


async def test_domains_are_read_beside_requests_and_kept_while_the_database_does_not_answer(
    database: Database, tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_site, "KEPT_SECONDS", 0.001)
    hosts = public_site.PublicHosts(database)
    read_twice = asyncio.Event()
    failures = 0

    async def fail(_: Database) -> Mapping[str, TenantId]:
        nonlocal failures
        failures += 1
        if failures > 1:
            read_twice.set()
        raise DatabaseUnavailable("it does not answer")

    async with asyncio.timeout(allow_seconds(10)), hosts.keep_current():
        assert await hosts.find_tenant(DOMAIN) is None
        await assign(database, tenant, DOMAIN)
        while await hosts.find_tenant(DOMAIN) is None:
            await asyncio.sleep(0.001)

        monkeypatch.setattr(public_site, "list_public_hosts", fail)
        await read_twice.wait()
        assert await hosts.find_tenant(DOMAIN) == tenant


async def test_names_that_are_no_domain_of_a_tenant_wait_for_no_list(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: Database) -> Mapping[str, TenantId]:
        pytest.fail("the list of domains was read")

    monkeypatch.setattr(public_site, "list_public_hosts", refuse)
    settings = service.settings.model_copy(update={"public_url": "https://passports.example"})
    app = create_app(replace(service, settings=settings))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://x") as http:
        for host in ("passports.example", "127.0.0.1:8080", "localhost", "bpc-api", "10.0.0.7", "[fd00::7]:80", ""):
            assert (await http.get("/v1/openapi.json", headers={"Host": host})).status_code == 200, host


async def test_a_domain_is_assigned_once_recorded_and_taken_away(
    auditor: Api, database: Database, tenant: TenantId, other_tenant: TenantId
) -> None:
    await assign(database, tenant, DOMAIN)
    await assign(database, tenant, DOMAIN)
    with pytest.raises(DomainTaken):
        await assign(database, other_tenant, DOMAIN)
    await assign(database, tenant, None)
    await assign(database, other_tenant, DOMAIN)

    assert await tenants_and_actors.list_public_hosts(database) == {DOMAIN: other_tenant}
    events = (await auditor.get_json("/v1/audit/events?aggregate_type=Tenant"))["items"]
    changes = [event["payload"]["public_host"] for event in events if event["event_type"] == "TENANT_DOMAIN_CHANGED"]
    assert sorted(changes, key=str) == [{"from": None, "to": DOMAIN}, {"from": DOMAIN, "to": None}]


def test_a_domain_is_a_host_and_nothing_else() -> None:
    assert parse_host("passports.acme.example.") == DOMAIN
    for text in (
        "",
        "acme",
        "https://acme.example",
        "acme.example/p",
        "acme.example:443",
        "Acme.example",
        "-a.example",
    ):
        with pytest.raises(Invalid):
            parse_host(text)
