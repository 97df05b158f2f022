"""The bytes of a version over HTTP: as they are stored, with their hash, and together as a bundle or a view."""

import pytest

from bpc import fresh
from bpc.api.service import Service
from bpc.core import canon
from bpc.core.bundle import read_bundle
from bpc.core.digest import sha256, to_hex
from bpc.core.events import Act
from bpc.core.ids import PassportVersionId, TenantId
from bpc.core.qr import check_qr_png
from bpc.core.receipt import read_receipt
from bpc.core.signing import public_key_of
from bpc.core.verify.bundle import verify_bundle, verify_view
from bpc.db import passport_versions
from bpc.db.database import Database
from bpc.jobs.testing import run_inline
from bpc.pipeline.compile import CompileOrder
from tests.api.conftest import SEED, Api
from tests.api.issued import Compilable, compilable, issued
from tests.pipeline.ready import Ready, order_of

KEY = public_key_of(SEED)


@pytest.fixture
async def given(admin: Api, database: Database, tenant: TenantId, act: Act) -> Compilable:
    return await compilable(admin, database, tenant, act)


@pytest.fixture
async def version(admin: Api, service: Service, given: Compilable) -> str:
    return await issued(admin, service, given)


async def test_artifacts_are_served_as_they_are_stored_with_their_hash(
    auditor: Api, database: Database, tenant: TenantId, version: str
) -> None:
    async with database.tenant(tenant) as conn:
        stored = await passport_versions.stored(conn, tenant, PassportVersionId(version))  # type: ignore[arg-type]

    for path, content, media_type in (
        ("payload", stored.payload, "application/json"),
        ("proof", stored.proof, "application/json"),
        ("receipt", stored.receipt, "application/json"),
        ("qr.png", stored.qr_png or b"", "image/png"),
    ):
        answer = await auditor.get(f"/v1/passport-versions/{version}/{path}")
        assert answer.content == content
        assert answer.headers["content-type"] == media_type
        assert answer.headers["etag"] == f'"{to_hex(sha256(content))}"'
        again = await auditor.get(
            f"/v1/passport-versions/{version}/{path}", headers={"If-None-Match": answer.headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")


async def test_hashes_and_signature_are_those_of_the_bytes(auditor: Api, version: str) -> None:
    known = await auditor.got(f"/v1/passport-versions/{version}")
    payload = (await auditor.get(f"/v1/passport-versions/{version}/payload")).content
    receipt = read_receipt((await auditor.get(f"/v1/passport-versions/{version}/receipt")).content)
    image = (await auditor.get(f"/v1/passport-versions/{version}/qr.png")).content

    receipt.verify(KEY)
    assert known["payload_hash"] == to_hex(sha256(payload))
    assert known["receipt_hash"] == to_hex(receipt.hash())
    bundle = read_bundle((await auditor.get(f"/v1/passport-versions/{version}/bundle")).content)
    check_qr_png(image, bundle["qr.txt"].decode())


async def test_a_bundle_is_the_same_bytes_each_time_and_checks_under_the_registered_key(
    auditor: Api, version: str
) -> None:
    one, other = [await auditor.get(f"/v1/passport-versions/{version}/bundle") for _ in range(2)]

    report = verify_bundle(one.content, pinned=[KEY])

    assert one.content == other.content
    assert (one.headers["content-type"], one.headers["etag"]) == (
        "application/zip",
        f'"{to_hex(sha256(one.content))}"',
    )
    assert report.ok, report
    assert next(step.detail for step in report.steps if step.name == "events").startswith("3 events")


async def test_a_view_shows_what_its_audience_may_see_and_checks(auditor: Api, version: str) -> None:
    shown = {}
    for audience in ("public", "interest", "authority"):
        answer = await auditor.get(f"/v1/passport-versions/{version}/view?audience={audience}")
        assert verify_view(answer.content, pinned=[KEY]).ok
        assert canon.encode(canon.decode(answer.content)) == answer.content
        shown[audience] = {field["data"]["path"] for field in answer.json()["fields"]}

    assert shown["public"] == shown["interest"] == {"battery.name", "battery.capacity_kwh"}
    assert shown["authority"] == {"battery.name", "battery.capacity_kwh", "pcf.per_kwh"}


async def test_a_view_needs_an_audience_that_there_is(auditor: Api, version: str) -> None:
    for query in ("", "?audience=everybody", "?audience=public&audience=interest", "?who=public"):
        refused = await auditor.get(f"/v1/passport-versions/{version}/view{query}")

        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR"), query


async def test_until_a_version_is_signed_there_is_neither_bundle_nor_view_nor_qr_code(
    auditor: Api, service: Service, database: Database, tenant: TenantId, act: Act, given: Compilable
) -> None:
    order = await _order(database, tenant, act, given)
    async with database.tenant(tenant) as conn:
        await run_inline(service.steps.compile, order, tenant=tenant, conn=conn)
    path = f"/v1/passport-versions/{order.passport_version_id}"

    for what in ("bundle", "view?audience=public"):
        refused = await auditor.get(f"{path}/{what}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")
        assert refused.json()["error"]["details"] == {"status": "COMPILING"}
    assert (await auditor.get(f"{path}/qr.png")).json()["error"]["code"] == "NOT_FOUND"
    assert (await auditor.get(f"{path}/payload")).status_code == 200


async def _order(database: Database, tenant: TenantId, act: Act, given: Compilable) -> CompileOrder:
    of: dict[str, object] = {
        "passport": given.passport,
        "snapshot": given.body["snapshot_id"],
        "rules": given.body["rule_package_version_id"],
    }
    async with database.tenant(tenant) as conn:
        return await order_of(conn, tenant, Ready(**of), act)  # type: ignore[arg-type]


async def test_artifacts_of_another_tenant_are_like_ones_that_do_not_exist(rival: Api, version: str) -> None:
    unknown, same = str(fresh.new_id()), {"X-Correlation-Id": str(fresh.new_id())}

    for what in ("payload", "proof", "receipt", "qr.png", "bundle", "view?audience=public"):
        foreign = await rival.get(f"/v1/passport-versions/{version}/{what}", headers=same)
        missing = await rival.get(f"/v1/passport-versions/{unknown}/{what}", headers=same)

        assert foreign.status_code == missing.status_code == 404, what
        assert foreign.content == missing.content.replace(unknown.encode(), version.encode()), what
