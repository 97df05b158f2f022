"""Exports over HTTP: asked for, listed, and fetched with their hash; those who may not see a version get nothing."""

import io
import json
from uuid import UUID

import asyncpg
import pytest
import xmlschema
from pyld import jsonld  # type: ignore[import-untyped]
from pypdf import PdfReader
from service_jobs import Worker
from service_jobs.testing import run_inline

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.audit.signing import derive_public_key
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import PassportId, RulePackageVersionId, SnapshotId, TenantId
from bpc.core.passport.bundle import read_bundle
from bpc.core.verify.bundle import verify_bundle
from bpc.printing import render_export
from bpc.runtime import clock
from bpc.storage.database import Database
from tests.api.conftest import SEED, Api
from tests.api.passport_fixtures import PassportInputs, create_passport_inputs, issue_version
from tests.pipeline.compile_fixtures import CompileInputs, make_compile_order


@pytest.fixture
async def inputs(admin: Api, database: Database, tenant: TenantId, act: Act) -> PassportInputs:
    return await create_passport_inputs(admin, database, tenant, act)


@pytest.fixture
async def version(admin: Api, service: Service, inputs: PassportInputs) -> str:
    return await issue_version(admin, service, inputs)


async def _request_export(api: Api, version: str, **body: str) -> str:
    answer = await api.post_json(f"/v1/passport-versions/{version}/exports", body, status=202)
    assert set(answer) == {"export_id", "job_id"}
    return str(answer["export_id"])


async def test_every_format_is_made_and_served_with_its_hash_and_name(
    auditor: Api, service: Service, version: str
) -> None:
    expected = {
        "PDF": ("application/pdf", f"passport-{version}-public.pdf"),
        "JSON_LD": ("application/ld+json", f"passport-{version}-tenant.jsonld"),
        "XML": ("application/xml", f"passport-{version}-tenant.xml"),
        "DATA_POINTS": ("application/json", f"data-points-{version}-tenant.json"),
        "BUNDLE": ("application/zip", f"bundle-{version}.zip"),
    }
    export_ids = {name: await _request_export(auditor, version, format=name) for name in expected}
    await Worker(service.jobs).run_until_idle()

    for name, (mime_type, file_name) in expected.items():
        known = await auditor.get_json(f"/v1/exports/{export_ids[name]}")
        answer = await auditor.get(f"/v1/exports/{export_ids[name]}/content")

        assert (answer.status_code, known["status"], known["format"]) == (200, "READY", name)
        assert answer.headers["content-type"] == known["mime_type"] == mime_type
        assert answer.headers["etag"] == f'"{known["sha256"]}"' == f'"{to_hex(sha256(answer.content))}"'
        assert answer.headers["content-disposition"] == f'attachment; filename="{file_name}"'
        assert known["size"] == len(answer.content)
        again = await auditor.get(
            f"/v1/exports/{export_ids[name]}/content", headers={"If-None-Match": answer.headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")


async def test_what_is_fetched_is_what_a_bundle_gives_without_us(auditor: Api, service: Service, version: str) -> None:
    export_ids = {
        name: await _request_export(auditor, version, format=name) for name in ("PDF", "XML", "JSON_LD", "BUNDLE")
    }
    await Worker(service.jobs).run_until_idle()
    contents = {name: (await auditor.get(f"/v1/exports/{export_ids[name]}/content")).content for name in export_ids}

    bundle = contents.pop("BUNDLE")
    assert verify_bundle(bundle, pins=[derive_public_key(SEED)]).ok
    assert contents["PDF"] == render_export(read_bundle(bundle), "PDF", "public")
    assert contents["XML"] == render_export(read_bundle(bundle), "XML", "tenant", waived_count=0)
    assert PdfReader(io.BytesIO(contents["PDF"])).pages
    schema = (await auditor.get("/v1/schemas/passport.xsd")).text
    xmlschema.XMLSchema(schema).validate(io.BytesIO(contents["XML"]))
    context = json.loads((await auditor.get("/v1/contexts/passport.jsonld")).content)
    document = json.loads(contents["JSON_LD"])
    assert document["@context"] == context["@context"]
    assert jsonld.expand(document)[0]["@id"] == f"urn:uuid:{version}"


async def test_an_audience_gets_what_it_may_see(auditor: Api, service: Service, version: str) -> None:
    export_ids = {
        who: await _request_export(auditor, version, format="XML", audience=who) for who in ("public", "authority")
    }
    await Worker(service.jobs).run_until_idle()

    for_all, for_authorities = [(await auditor.get(f"/v1/exports/{each}/content")).text for each in export_ids.values()]
    assert "pcf.per_kwh" not in for_all
    assert "pcf.per_kwh" in for_authorities
    assert (await auditor.get_json(f"/v1/exports/{export_ids['public']}"))["audience"] == "public"


async def test_the_exports_of_a_version_are_listed_newest_first(auditor: Api, version: str) -> None:
    export_ids = [await _request_export(auditor, version, format=name) for name in ("PDF", "XML", "JSON_LD")]

    first = await auditor.get_json(f"/v1/passport-versions/{version}/exports", params={"limit": "2"})
    rest = await auditor.get_json(f"/v1/passport-versions/{version}/exports", params={"cursor": first["next_cursor"]})

    assert [item["export_id"] for item in first["items"] + rest["items"]] == export_ids[::-1]
    assert rest["next_cursor"] is None
    assert {item["status"] for item in first["items"]} == {"PENDING"}
    assert [item["size"] for item in rest["items"]] == [None]


async def test_until_it_is_made_there_is_nothing_to_fetch_and_the_job_is_named(auditor: Api, version: str) -> None:
    export = await _request_export(auditor, version, format="PDF")

    refused = await auditor.get(f"/v1/exports/{export}/content")

    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["details"]["status"]) == (409, "CONFLICT", "PENDING")
    assert error["details"]["job_id"] in error["message"]


async def test_an_export_that_failed_says_why(
    auditor: Api, service: Service, version: str, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    export = await _request_export(auditor, version, format="PDF")
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE passport_versions SET payload_canonical = payload_canonical || '\\x20'")
    await Worker(service.jobs).run_until_idle()

    known = await auditor.get_json(f"/v1/exports/{export}")
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
    auditor: Api, service: Service, database: Database, tenant: TenantId, act: Act, inputs: PassportInputs
) -> None:
    compile_inputs = CompileInputs(
        passport=PassportId(UUID(inputs.passport)),
        snapshot=SnapshotId(UUID(inputs.body["snapshot_id"])),
        rules=RulePackageVersionId(UUID(inputs.body["rule_package_version_id"])),
    )
    async with database.tenant(tenant) as conn:
        order = await make_compile_order(conn, tenant, compile_inputs, act)
        await run_inline(service.pipeline_jobs.compile, order, tenant=tenant, conn=conn)

    refused = await auditor.post(f"/v1/passport-versions/{order.passport_version_id}/exports", {"format": "PDF"})

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")
    assert refused.json()["error"]["details"] == {"status": "COMPILING"}
    assert "wait until its jobs have finished" in refused.json()["error"]["message"]


async def test_exports_of_another_tenant_are_like_ones_that_do_not_exist(
    auditor: Api, other_admin: Api, service: Service, version: str
) -> None:
    export, unknown, same = (
        await _request_export(auditor, version, format="XML"),
        str(clock.new_id()),
        {"X-Correlation-Id": str(clock.new_id())},
    )
    await Worker(service.jobs).run_until_idle()

    for path in ("/v1/exports/{}", "/v1/exports/{}/content"):
        foreign = await other_admin.get(path.format(export), headers=same)
        missing = await other_admin.get(path.format(unknown), headers=same)
        assert foreign.status_code == missing.status_code == 404
        assert foreign.content == missing.content.replace(unknown.encode(), export.encode())
    assert (await other_admin.get(f"/v1/passport-versions/{version}/exports")).status_code == 404
    assert (await other_admin.post(f"/v1/passport-versions/{version}/exports", {"format": "PDF"})).status_code == 404


@pytest.mark.parametrize("condition", ["ids", "sku"])
async def test_a_policy_that_denies_a_version_denies_its_exports(
    admin: Api, auditor: Api, service: Service, version: str, condition: str
) -> None:
    export = await _request_export(auditor, version, format="XML")
    await Worker(service.jobs).run_until_idle()
    about = {"type": "PassportVersion", **({"ids": [version]} if condition == "ids" else {"sku": "*"})}
    await admin.post_json(
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


async def test_context_and_schema_are_for_everybody(anonymous: Api) -> None:
    for path, mime_type in (
        ("/v1/contexts/passport.jsonld", "application/ld+json"),
        ("/v1/schemas/passport.xsd", "application/xml"),
    ):
        answer = await anonymous.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, mime_type)
        assert answer.headers["etag"] == f'"{to_hex(sha256(answer.content))}"'
