"""From a supplier's document to a passport that replays: every step over HTTP, with a worker beside."""

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from bpc.core.audit.signing import derive_public_key
from bpc.core.verify.bundle import verify_bundle, verify_view
from tests.api.conftest import SEED, Api

EXAMPLE = Path(__file__).parents[2] / "examples" / "first"


async def wait_for_job(api: Api, job_id: str, status: str = "SUCCEEDED") -> Any:
    """The job, once it is over, which must be with this status."""
    async with asyncio.timeout(60):
        while True:
            job = await api.get_json(f"/v1/jobs/{job_id}")
            if job["status"] in {"SUCCEEDED", "FAILED", "DEAD_LETTER", "CANCELLED"}:
                assert job["status"] == status, job
                return job
            await asyncio.sleep(0.02)


async def upload_and_parse(api: Api, kind: str, content: bytes) -> str:
    """The id of a document version whose facts have been read."""
    document = await api.post_json("/v1/documents", {"kind": kind})
    body = {"mime_type": "application/json", "content_base64": b64encode(content).decode()}
    version = await api.post_json(f"/v1/documents/{document['document_id']}/versions", body)
    await wait_for_job(api, version["job_id"])
    return str(version["document_version_id"])


async def seal_all_facts(api: Api) -> str:
    """A sealed snapshot of all facts there are."""
    facts = [fact["fact_id"] for fact in (await api.get_json("/v1/facts", params={"limit": 200}))["items"]]
    snapshot = (await api.post_json("/v1/snapshots", {"label": "all"}))["snapshot_id"]
    await api.post_json(f"/v1/snapshots/{snapshot}/items", {"fact_ids": facts}, status=200)
    await wait_for_job(api, (await api.post_json(f"/v1/snapshots/{snapshot}/build", status=202))["job_id"])
    await api.post_json(f"/v1/snapshots/{snapshot}/seal", status=200)
    return str(snapshot)


async def publish_rules(api: Api, rules: str, tests: str) -> str:
    """A rule version whose tests passed."""
    package = (await api.post_json("/v1/rule-packages", {"name": "battery"}))["rule_package_id"]
    version = await api.post_json(f"/v1/rule-packages/{package}/versions", {"dsl_source": rules, "tests_source": tests})
    version_id = version["rule_package_version_id"]
    run = await api.post_json(f"/v1/rule-package-versions/{version_id}/tests:run", {"seed": 42}, status=200)
    await wait_for_job(api, run["job_id"])
    await api.post_json(f"/v1/rule-package-versions/{version_id}:publish", status=200)
    return str(version_id)


async def compile_version(api: Api, passport: str, snapshot: str, rules: str) -> str:
    """A version that is signed and has its QR code."""
    body = {"snapshot_id": snapshot, "rule_package_version_id": rules}
    answer = await api.post_json(f"/v1/passports/{passport}/compile", body, status=202)
    await wait_for_job(api, answer["job_id"])
    version = str(answer["passport_version_id"])
    async with asyncio.timeout(60):
        while (await api.get(f"/v1/passport-versions/{version}/qr.png")).status_code != 200:
            await asyncio.sleep(0.02)
    return version


@pytest.mark.usefixtures("worker")
async def test_a_document_becomes_a_passport_that_anyone_can_check(admin: Api, auditor: Api) -> None:
    await upload_and_parse(admin, "BOM", b'{"battery":{"sku":"SKU-123","capacity_kwh":75.5},"components":[]}')
    await upload_and_parse(admin, "PCF", b'{"sku":"SKU-123","total_gco2e":4500000.00}')
    snapshot = await seal_all_facts(admin)
    rules = await publish_rules(admin, (EXAMPLE / "rules.bpc").read_text(), (EXAMPLE / "tests.bpc").read_text())
    product = (await admin.post_json("/v1/battery-products", {"sku": "SKU-123", "name": "First"}))["battery_product_id"]
    passport = (await admin.post_json("/v1/passports", {"battery_product_id": product}))["passport_id"]

    first = await compile_version(admin, passport, snapshot, rules)
    second = await compile_version(admin, passport, snapshot, rules)

    for version in (first, second):
        answer = await admin.post_json(f"/v1/passport-versions/{version}/activate", status=200)
        assert answer["status"] == "ACTIVE"
    assert (await admin.get_json(f"/v1/passport-versions/{first}"))["status"] == "SUPERSEDED"
    assert (await admin.get_json(f"/v1/passports/{passport}"))["current_passport_version_id"] == second
    payload = await auditor.get_json(f"/v1/passport-versions/{second}/payload")
    assert payload["fields"]["battery"]["capacity_kwh"] == "75.500000"
    assert payload["fields"]["sustainability"]["pcf_gco2e_per_kwh"] == "59602.65"
    replayed = await admin.post_json(f"/v1/passport-versions/{second}/replay", status=200)
    assert replayed["status"] == "OK"
    bundle = (await auditor.get(f"/v1/passport-versions/{second}/bundle")).content
    report = verify_bundle(bundle, pins=[derive_public_key(SEED)])
    assert [step for step in report.steps if not step.ok] == []
    assert report.issuer == "pinned"
    view = (await auditor.get(f"/v1/passport-versions/{second}/view", params={"audience": "public"})).content
    assert [step for step in verify_view(view, pins=[derive_public_key(SEED)]).steps if not step.ok] == []
    revoked = await admin.post_json(f"/v1/passport-versions/{second}/revoke", {"reason": "a recall"}, status=200)
    assert revoked["status"] == "REVOKED"
    assert (await admin.get_json("/v1/audit/verify"))["ok"] is True
