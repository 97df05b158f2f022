"""The bytes of a version over HTTP: as they are stored, with their hash, and together as a bundle or a view."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal
from uuid import UUID

import pytest
from service_jobs.testing import run_inline

from bpc.api.http.request_context import Service
from bpc.api.http.stored_formats import (
    PassportPayload,
    PassportProof,
    PassportReceipt,
    PassportView,
    StoredFormat,
)
from bpc.core.audit.events import Act
from bpc.core.audit.signing import Signer, derive_public_key
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import PassportId, PassportVersionId, RulePackageVersionId, SnapshotId, TenantId
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.qr import check_qr_png
from bpc.core.passport.receipt import HASH, ID, NAME, RECEIPT_CONSTANTS, RECEIPT_FORMAT, TIME, read_receipt
from bpc.core.status.statements import read_statement
from bpc.core.tlog.policy import parse_policy
from bpc.core.verify.bundle import verify_bundle, verify_bundle_or_view, verify_view
from bpc.core.verify.status_step import StatusQuestion
from bpc.pipeline.compile_order import CompileOrder
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.storage.database import Database
from bpc.storage.passports import passport_versions
from bpc.storage.tlog import log_rows
from bpc.tasks.status_lists import StatusPublisher, make_signer_source
from tests.api.conftest import KEY_ID, SEED, Api
from tests.api.passport_fixtures import PassportInputs, create_passport_inputs, issue_version
from tests.pipeline.compile_fixtures import CompileInputs, make_compile_order
from tests.storage.tlog.log_fixtures import SIGNER, make_sequencer

KEY = derive_public_key(SEED)
KEY_RING = KeyRing({KEY_ID: Signer(SEED)})


@pytest.fixture
async def inputs(admin: Api, database: Database, tenant: TenantId, act: Act) -> PassportInputs:
    return await create_passport_inputs(admin, database, tenant, act)


@pytest.fixture
async def version(admin: Api, service: Service, inputs: PassportInputs) -> str:
    return await issue_version(admin, service, inputs)


def _list_undocumented(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _list_undocumented(item)
    elif isinstance(value, StoredFormat):
        yield from value.model_extra or {}
        for name in type(value).model_fields:
            yield from _list_undocumented(getattr(value, name))


def test_the_documented_receipt_is_that_of_the_format() -> None:
    documented = {name: field.annotation for name, field in PassportReceipt.model_fields.items() if name != "signature"}
    types = {ID: UUID, TIME: datetime, HASH: str, NAME: str}

    members: dict[str, object] = {name: types[form] for name, form in RECEIPT_FORMAT.items()}
    constants = {name: Literal[value] for name, value in RECEIPT_CONSTANTS.items()}

    assert documented == members | constants


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("payload", PassportPayload),
        ("proof", PassportProof),
        ("receipt", PassportReceipt),
        ("view?audience=public", PassportView),
    ],
)
async def test_every_stored_member_is_documented(
    auditor: Api, version: str, path: str, model: type[StoredFormat]
) -> None:
    stored = model.model_validate((await auditor.get(f"/v1/passport-versions/{version}/{path}")).json())

    assert list(_list_undocumented(stored)) == []
    assert stored.model_fields_set == set(model.model_fields)


async def test_artifacts_are_served_as_they_are_stored_with_their_hash(
    auditor: Api, database: Database, tenant: TenantId, version: str
) -> None:
    async with database.tenant(tenant) as conn:
        stored = await passport_versions.load_bytes(conn, tenant, PassportVersionId(version))  # type: ignore[arg-type]

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
    known = await auditor.get_json(f"/v1/passport-versions/{version}")
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

    report = verify_bundle(one.content, pins=[KEY])

    assert one.content == other.content
    assert (one.headers["content-type"], one.headers["etag"]) == (
        "application/zip",
        f'"{to_hex(sha256(one.content))}"',
    )
    assert report.ok, report
    assert next(step.detail for step in report.steps if step.name == "events") == "not part of this bundle"


async def test_a_view_shows_what_its_audience_may_see_and_checks(auditor: Api, version: str) -> None:
    views = {}
    for audience in ("public", "interest", "authority"):
        answer = await auditor.get(f"/v1/passport-versions/{version}/view?audience={audience}")
        assert verify_view(answer.content, pins=[KEY]).ok
        assert canonical_json.encode(canonical_json.decode(answer.content)) == answer.content
        views[audience] = {field["data"]["path"] for field in answer.json()["fields"]}

    assert views["public"] == views["interest"] == {"battery.name", "battery.capacity_kwh"}
    assert views["authority"] == {"battery.name", "battery.capacity_kwh", "pcf.per_kwh"}


async def test_a_view_needs_an_audience_that_there_is(auditor: Api, version: str) -> None:
    for query in ("", "?audience=everybody", "?audience=public&audience=interest", "?who=public"):
        refused = await auditor.get(f"/v1/passport-versions/{version}/view{query}")

        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR"), query


async def test_once_logged_a_bundle_carries_the_proof_and_its_bytes_stay(
    auditor: Api, database: Database, version: str, tmp_path: Path
) -> None:
    pending = (await auditor.get(f"/v1/passport-versions/{version}/bundle")).content
    sequencer = make_sequencer(database, tmp_path)
    await sequencer.run_once()

    logged = (await auditor.get(f"/v1/passport-versions/{version}/bundle")).content
    async with database.system() as conn:
        await log_rows.mark_restored(conn)
    await sequencer.run_once()
    again = (await auditor.get(f"/v1/passport-versions/{version}/bundle")).content

    assert "passport.tlog-proof" not in read_bundle(pending).entries
    assert logged == again != pending
    policy = parse_policy(f"log {SIGNER.verifier}\nquorum none".encode())
    report = verify_bundle(logged, pins=[KEY], policy=policy, require_log=True)
    assert report.ok, report.cause
    events = next(step.detail for step in report.steps if step.name == "events")
    assert events == "2 events, each linked to the one before; the entry of the log vouches for those up to 2"
    view = await auditor.get(f"/v1/passport-versions/{version}/view?audience=public")
    assert verify_view(view.content, pins=[KEY]).ok


async def test_the_status_of_a_version_is_public_signed_and_cacheable(
    admin: Api, auditor: Api, anonymous: Api, service: Service, database: Database, version: str, tmp_path: Path
) -> None:
    public = anonymous
    assert (await public.get(f"/status/statements/{version}")).json()["error"]["code"] == "NOT_FOUND"
    publisher = StatusPublisher(
        database=database,
        open_signer=make_signer_source(service.settings, KEY_RING),
        base_url="http://passports.example",
    )
    await publisher.publish_due()
    await make_sequencer(database, tmp_path).run_once()
    bundle = (await auditor.get(f"/v1/passport-versions/{version}/bundle")).content
    envelope = (await auditor.get(f"/v1/passport-versions/{version}/view?audience=public&envelope=true")).content
    place = read_statement(read_bundle(bundle)["status.json"]).place
    path = place.list_url.removeprefix("http://passports.example")

    before = await public.get(path)
    unchanged = await public.get(path, headers={"If-None-Match": before.headers["etag"]})
    await admin.post_json(f"/v1/passport-versions/{version}/revoke", {"reason": "wrong cell"}, status=200)
    await publisher.publish_due()
    after, said = await public.get(path), await public.get(f"/status/statements/{version}")

    assert before.headers["cache-control"] == "public, max-age=300"
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    for data in (bundle, envelope):
        verdicts = [
            verify_bundle_or_view(
                data, pins=[KEY], question=StatusQuestion(documents=documents, now=clock.now())
            ).status
            for documents in ((before.content,), (after.content,), (after.content, said.content))
        ]
        assert [verdict.name for verdict in verdicts] == ["in_force", "revoked", "revoked"]
        assert verdicts[-1].reason == "wrong cell"
    assert (await public.get(f"/status/lists/{clock.new_id()}")).status_code == 404
    keys = (await public.get("/.well-known/bpc-keys.json")).json()
    assert keys["status_url"].startswith("http")


async def test_until_a_version_is_signed_there_is_neither_bundle_nor_view_nor_qr_code(
    auditor: Api, service: Service, database: Database, tenant: TenantId, act: Act, inputs: PassportInputs
) -> None:
    order = await _make_order(database, tenant, act, inputs)
    async with database.tenant(tenant) as conn:
        await run_inline(service.pipeline_jobs.compile, order, tenant=tenant, conn=conn)
    path = f"/v1/passport-versions/{order.passport_version_id}"

    for what in ("bundle", "view?audience=public"):
        refused = await auditor.get(f"{path}/{what}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")
        assert refused.json()["error"]["details"] == {"status": "COMPILING"}
    assert (await auditor.get(f"{path}/qr.png")).json()["error"]["code"] == "NOT_FOUND"
    assert (await auditor.get(f"{path}/payload")).status_code == 200


async def _make_order(database: Database, tenant: TenantId, act: Act, inputs: PassportInputs) -> CompileOrder:
    compile_inputs = CompileInputs(
        passport=PassportId(UUID(inputs.passport)),
        snapshot=SnapshotId(UUID(inputs.body["snapshot_id"])),
        rules=RulePackageVersionId(UUID(inputs.body["rule_package_version_id"])),
    )
    async with database.tenant(tenant) as conn:
        return await make_compile_order(conn, tenant, compile_inputs, act)


async def test_artifacts_of_another_tenant_are_like_ones_that_do_not_exist(other_admin: Api, version: str) -> None:
    unknown, same = str(clock.new_id()), {"X-Correlation-Id": str(clock.new_id())}

    for what in ("payload", "proof", "receipt", "qr.png", "bundle", "view?audience=public"):
        foreign = await other_admin.get(f"/v1/passport-versions/{version}/{what}", headers=same)
        missing = await other_admin.get(f"/v1/passport-versions/{unknown}/{what}", headers=same)

        assert foreign.status_code == missing.status_code == 404, what
        assert foreign.content == missing.content.replace(unknown.encode(), version.encode()), what
