"""Signing a transfer: with keys that sign now, over what both sides said, or not at all."""

import asyncio
from typing import Any

from tests.jobs.support.run_workers import run_worker

from bpc.api.http.request_context import Service
from tests.api.conftest import Api
from tests.api.transfer_fixtures import ANSWER, wait_for_state


async def test_without_a_key_that_signs_nothing_is_transferred(
    admin: Api,
    other_admin: Api,
    service: Service,
    offer: dict[str, Any],
) -> None:
    own_key = (await admin.post_json("/v1/signing-keys", {}))["key_id"]
    transfer = (await admin.post_json("/v1/transfers", offer))["transfer_id"]
    await other_admin.post_json(f"/v1/transfers/{transfer}:accept", ANSWER, status=200)
    body = {"since": "2025-01-01T00:00:00Z", "reason": "it was stolen"}
    await admin.post_json(f"/v1/signing-keys/{own_key}:report-compromise", body, status=200)

    refused = await admin.post("/v1/transfers", offer)
    async with run_worker(service.jobs):
        async with asyncio.timeout(60):
            while (job := (await other_admin.get_json("/v1/jobs?type=SIGN_TRANSFER"))["items"][0])["status"] not in {
                "FAILED",
                "DEAD_LETTER",
            }:
                await asyncio.sleep(0.02)

        assert refused.status_code == 500
        assert refused.json()["error"]["code"] == "SIGNING_KEY_MISSING"
        assert "who gives the battery" in job["last_error"]["message"]
        assert (await other_admin.get_json(f"/v1/transfers/{transfer}"))["state"] == "ACCEPTED"
        assert (await other_admin.get_json("/v1/batteries?sku=STORAGE-5"))["items"] == []
        assert (await admin.get_json(f"/v1/batteries/{offer['battery_id']}"))["status"] == "waste"

        new_key = (await admin.post_json("/v1/signing-keys", {}))["key_id"]
        await other_admin.post_json(f"/v1/jobs/{job['job_id']}:retry", status=200)
        await wait_for_state(admin, transfer, "COMPLETED")
    statements = await admin.get_json(f"/v1/transfers/{transfer}/statements")
    assert statements["gives"]["signing_key_id"] == new_key != statements["takes"]["signing_key_id"]


async def test_a_side_that_was_changed_behind_our_back_is_not_signed_for(
    admin: Api, other_admin: Api, service: Service, superuser: Any, offer: dict[str, Any]
) -> None:
    transfer = (await admin.post_json("/v1/transfers", offer))["transfer_id"]
    await other_admin.post_json(f"/v1/transfers/{transfer}:accept", ANSWER, status=200)
    await superuser.execute("ALTER TABLE battery_transfers DISABLE TRIGGER USER")
    await superuser.execute("""
        UPDATE battery_transfers
           SET acceptance = convert_to(replace(convert_from(acceptance, 'UTF8'), 'repurposed', 're-used'), 'UTF8')
         WHERE side = 'TAKES'
    """)
    await superuser.execute("ALTER TABLE battery_transfers ENABLE TRIGGER USER")

    async with run_worker(service.jobs), asyncio.timeout(60):
        while (job := (await other_admin.get_json("/v1/jobs?type=SIGN_TRANSFER"))["items"][0])["status"] not in {
            "FAILED",
            "DEAD_LETTER",
        }:
            await asyncio.sleep(0.02)

    assert "do not say the same" in job["last_error"]["message"]
    assert (await admin.get_json(f"/v1/transfers/{transfer}"))["state"] == "ACCEPTED"
