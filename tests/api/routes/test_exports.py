"""Exports over HTTP: asked for, listed, and fetched with their hash; those who may not see a version get nothing."""

import io
import json

import asyncpg
import pytest
import xmlschema
from pyld import jsonld  # type: ignore[import-untyped]
from pypdf import PdfReader

from bpc import fresh
from bpc.api.service import Service
from bpc.core.bundle import read_bundle
from bpc.core.digest import sha256, to_hex
from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.core.signing import public_key_of
from bpc.core.verify.bundle import verify_bundle
from bpc.db.database import Database
from bpc.jobs import Worker
from bpc.jobs.testing import run_inline
from bpc.printing import exported
from tests.api.conftest import SEED, Api
from tests.api.issued import Compilable, compilable, issued
from tests.pipeline.ready import Ready, order_of


@pytest.fixture
async def given(admin: Api, database: Database, tenant: TenantId, act: Act) -> Compilable:
    return await compilable(admin, database, tenant, act)


@pytest.fixture
async def version(admin: Api, service: Service, given: Compilable) -> str:
    return await issued(admin, service, given)


async def _asked(api: Api, version: str, **body: str) -> str:
    answer = await api.made(f"/v1/passport-versions/{version}/exports", body, status=202)
    assert set(answer) == {"export_id", "job_id"}
    return str(answer["export_id"])


async def test_every_format_is_made_and_served_with_its_hash_and_name(
    auditor: Api, service: Service, version: str
) -> None:
    wanted = {
        "PDF": ("application/pdf", f"passport-{version}-public.pdf"),
        "JSON_LD": ("application/ld+json", f"passport-{version}-tenant.jsonld"),
        "XML": ("application/xml", f"passport-{version}-tenant.xml"),
        "DATA_POINTS": ("application/json", f"data-points-{version}-tenant.json"),
        "BUNDLE": ("application/zip", f"bundle-{version}.zip"),
    }
    made = {name: await _asked(auditor, version, format=name) for name in wanted}
    await Worker(service.jobs).run_until_idle()

    for name, (mime_type, file_name) in wanted.items():
        known = await auditor.got(f"/v1/exports/{made[name]}")
        answer = await auditor.get(f"/v1/exports/{made[name]}/content")

        assert (answer.status_code, known["status"], known["format"]) == (200, "READY", name)
        assert answer.headers["content-type"] == known["mime_type"] == mime_type
        assert answer.headers["etag"] == f'"{known["sha256"]}"' == f'"{to_hex(sha256(answer.content))}"'
        assert answer.headers["content-disposition"] == f'attachment; filename="{file_name}"'
        assert known["size"] == len(answer.content)
        again = await auditor.get(
            f"/v1/exports/{made[name]}/content", headers={"If-None-Match": answer.headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")


async def test_what_is_fetched_is_what_a_bundle_gives_without_us(auditor: Api, service: Service, version: str) -> None:
    made = {name: await _asked(auditor, version, format=name) for name in ("PDF", "XML", "JSON_LD", "BUNDLE")}
    await Worker(service.jobs).run_until_idle()
    contents = {name: (await auditor.get(f"/v1/exports/{made[name]}/content")).content for name in made}

    bundle = contents.pop("BUNDLE")
    assert verify_bundle(bundle, pinned=[public_key_of(SEED)]).ok
    assert contents["PDF"] == exported(read_bundle(bundle), "PDF", "public")
    assert contents["XML"] == exported(read_bundle(bundle), "XML", "tenant")
    assert PdfReader(io.BytesIO(contents["PDF"])).pages
    schema = (await auditor.get("/v1/schemas/passport.xsd")).text
    xmlschema.XMLSchema(schema).validate(io.BytesIO(contents["XML"]))
    context = json.loads((await auditor.get("/v1/contexts/passport.jsonld")).content)
    document = json.loads(contents["JSON_LD"])
    assert document["@context"] == context["@context"]
    assert jsonld.expand(document)[0]["@id"] == f"urn:uuid:{version}"


async def test_an_audience_gets_what_it_may_see(auditor: Api, service: Service, version: str) -> None:
    made = {who: await _asked(auditor, version, format="XML", audience=who) for who in ("public", "authority")}
    await Worker(service.jobs).run_until_idle()

    for_all, for_authorities = [(await auditor.get(f"/v1/exports/{each}/content")).text for each in made.values()]
    assert "pcf.per_kwh" not in for_all
    assert "pcf.per_kwh" in for_authorities
    assert (await auditor.got(f"/v1/exports/{made['public']}"))["audience"] == "public"


async def test_the_exports_of_a_version_are_listed_newest_first(auditor: Api, version: str) -> None:
    made = [await _asked(auditor, version, format=name) for name in ("PDF", "XML", "JSON_LD")]

    first = await auditor.got(f"/v1/passport-versions/{version}/exports", params={"limit": "2"})
    rest = await auditor.got(f"/v1/passport-versions/{version}/exports", params={"cursor": first["next_cursor"]})

    assert [item["export_id"] for item in first["items"] + rest["items"]] == made[::-1]
    assert rest["next_cursor"] is None
    assert {item["status"] for item in first["items"]} == {"PENDING"}
    assert [item["size"] for item in rest["items"]] == [None]


async def test_until_it_is_made_there_is_nothing_to_fetch_and_the_job_is_named(auditor: Api, version: str) -> None:
    export = await _asked(auditor, version, format="PDF")

    refused = await auditor.get(f"/v1/exports/{export}/content")

    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["details"]["status"]) == (409, "CONFLICT", "PENDING")
    assert error["details"]["job_id"] in error["message"]


async def test_an_export_that_failed_says_why(
    auditor: Api, service: Service, version: str, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    export = await _asked(auditor, version, format="PDF")
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE passport_versions SET payload_canonical = payload_canonical || '\\x20'")
    await Worker(service.jobs).run_until_idle()

    known = await auditor.got(f"/v1/exports/{export}")
    refused = await auditor.get(f"/v1/exports/{export}/content")

    assert (known["status"], known["last_error"]["code"]) == ("FAILED", "VALIDATION_ERROR")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")
    assert known["last_error"]["message"] in refused.json()["error"]["message"]
    assert refused.json()["error"]["details"]["status"] == "FAILED"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"format": "DOCX"},
        {"format": "pdf"},
        {"format": "PDF", "audience": "everybody"},
        {"format": "BUNDLE", "audience": "public"},
        {"format": "PDF", "extra": True},
    ],
)
async def test_what_cannot_be_made_is_refused_at_once(auditor: Api, version: str, body: dict[str, object]) -> None:
    refused = await auditor.post(f"/v1/passport-versions/{version}/exports", body)

    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


async def test_a_version_that_is_not_signed_is_not_exported(
    auditor: Api, service: Service, database: Database, tenant: TenantId, act: Act, given: Compilable
) -> None:
    of = {"snapshot": given.body["snapshot_id"], "rules": given.body["rule_package_version_id"]}
    async with database.tenant(tenant) as conn:
        order = await order_of(conn, tenant, Ready(passport=given.passport, **of), act)  # type: ignore[arg-type]
        await run_inline(service.steps.compile, order, tenant=tenant, conn=conn)

    refused = await auditor.post(f"/v1/passport-versions/{order.passport_version_id}/exports", {"format": "PDF"})

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")
    assert refused.json()["error"]["details"] == {"status": "COMPILING"}
    assert "wait for its jobs" in refused.json()["error"]["message"]


async def test_exports_of_another_tenant_are_like_ones_that_do_not_exist(
    auditor: Api, rival: Api, service: Service, version: str
) -> None:
    export, unknown, same = (
        await _asked(auditor, version, format="XML"),
        str(fresh.new_id()),
        {"X-Correlation-Id": str(fresh.new_id())},
    )
    await Worker(service.jobs).run_until_idle()

    for path in ("/v1/exports/{}", "/v1/exports/{}/content"):
        foreign = await rival.get(path.format(export), headers=same)
        missing = await rival.get(path.format(unknown), headers=same)
        assert foreign.status_code == missing.status_code == 404
        assert foreign.content == missing.content.replace(unknown.encode(), export.encode())
    assert (await rival.get(f"/v1/passport-versions/{version}/exports")).status_code == 404
    assert (await rival.post(f"/v1/passport-versions/{version}/exports", {"format": "PDF"})).status_code == 404


@pytest.mark.parametrize("condition", ["ids", "sku"])
async def test_a_policy_that_denies_a_version_denies_its_exports(
    admin: Api, auditor: Api, service: Service, version: str, condition: str
) -> None:
    export = await _asked(auditor, version, format="XML")
    await Worker(service.jobs).run_until_idle()
    about = {"type": "PassportVersion", **({"ids": [version]} if condition == "ids" else {"sku": "*"})}
    await admin.made(
        "/v1/policies",
        {
            "name": "nobody sees it",
            "effect": "DENY",
            "target": "passport:read",
            "priority": 1,
            "policy_json": {"roles": ["Auditor"], "resource": about},
        },
    )

    for path in (f"/v1/exports/{export}", f"/v1/exports/{export}/content", f"/v1/passport-versions/{version}/exports"):
        assert (await auditor.get(path)).status_code == 403, path
    assert (await auditor.post(f"/v1/passport-versions/{version}/exports", {"format": "PDF"})).status_code == 403
    assert (await admin.get(f"/v1/exports/{export}/content")).status_code == 200


async def test_context_and_schema_are_for_everybody(nobody: Api) -> None:
    for path, mime_type in (
        ("/v1/contexts/passport.jsonld", "application/ld+json"),
        ("/v1/schemas/passport.xsd", "application/xml"),
    ):
        answer = await nobody.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, mime_type)
        assert answer.headers["etag"] == f'"{to_hex(sha256(answer.content))}"'
