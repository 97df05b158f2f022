"""Whoever changes batteries, registrations or readings behind our back is found, and the row is named."""

from typing import TypeAlias

import asyncpg
import pytest

from bpc.core.formats.ids import TenantId
from bpc.storage.audit.verification import verify_audit
from tests.api.conftest import Api
from tests.api.tampering import tamper

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
CSV = b"sku;serial_number;batch_number;placed_on\nP;A1;B1;2025-01-01\nP;A2;B1;\nP;A3;;\n"
READINGS = (
    b"sku,serial_number,kind,recorded_at,value\n"
    b"P,A1,full_cycles,2025-02-01T00:00:00Z,10\nP,A1,full_cycles,2025-03-01T00:00:00Z,20\n"
    b"P,A2,capacity_fade_pct,2025-03-01T00:00:00Z,1.5\n"
)
ADD_BATTERY = """
    INSERT INTO batteries (tenant_id, battery_id, battery_product_id, registration_id, registered_at, leaf_number,
                           serial_number)
    SELECT tenant_id, gen_random_uuid(), battery_product_id, registration_id, registered_at, {}, 'A9'
      FROM batteries WHERE serial_number = 'A3'
"""
# What is done, the table and problem that are named, and what is said of it.
ATTACKS = {
    "battery changed": ("UPDATE batteries SET serial_number = 'B1' WHERE serial_number = 'A1'", "CHANGED", "battery 0"),
    "battery removed": ("DELETE FROM batteries WHERE serial_number = 'A3'", "DELETED", "battery 2 of registration"),
    "battery added": (ADD_BATTERY.format(3), "ADDED", "has 3 batteries, and this is one more"),
    "battery of no registration": (
        ADD_BATTERY.format(0).replace(
            "battery_product_id, registration_id, registered_at, 0",
            "battery_product_id, gen_random_uuid(), registered_at, 0",
        ),
        "ADDED",
        "its registration is not there",
    ),
    "day of the market": (
        "UPDATE batteries SET placed_on = '2025-01-05' WHERE serial_number = 'A2'",
        "CHANGED",
        "it is not the day on which it was placed on the market",
    ),
    "leaves": (
        "UPDATE battery_registrations SET leaf_hashes = set_byte(leaf_hashes, 0, get_byte(leaf_hashes, 0) # 1)",
        "CHANGED",
        "they do not give its root",
    ),
    "reading changed": ("UPDATE battery_readings SET number = 0.5 WHERE number = 1.5", "CHANGED", "a reading of this"),
    "reading moved": (
        "UPDATE battery_readings SET recorded_at = recorded_at - interval '1 day' WHERE number = 20",
        "CHANGED",
        "a reading of this delivery was changed",
    ),
    "reading removed": ("DELETE FROM battery_readings WHERE number = 20", "DELETED", "2 readings of this delivery"),
    "reading added": (
        """INSERT INTO battery_readings (tenant_id, battery_id, delivery_id, recorded_at, received_at, revision, kind,
                                         number)
           SELECT tenant_id, battery_id, delivery_id, recorded_at, received_at, 1, kind, 19 FROM battery_readings
            WHERE number = 20""",
        "ADDED",
        "4 readings of this delivery",
    ),
    "readings of no delivery": (
        "UPDATE battery_readings SET delivery_id = gen_random_uuid() WHERE number = 20",
        "ADDED",
        "no event says that these readings were received",
    ),
}


@pytest.fixture
async def batteries(admin: Api) -> None:
    await admin.post_json("/v1/battery-products", {"sku": "P", "name": "Pack"})
    assert (await admin.send("POST", "/v1/batteries:register", content=CSV)).status_code == 200
    sent = await admin.send("POST", "/v1/batteries:readings", content=READINGS, params={"source": "BMS"})
    assert (sent.status_code, sent.json()["stored"]) == (200, 3), sent.text
    listed = (await admin.get_json("/v1/batteries?sku=P"))["items"]
    [battery] = [each["battery_id"] for each in listed if each["serial_number"] == "A2"]
    place = {"placed_on": "2025-01-02"}
    await admin.post_json(f"/v1/batteries/{battery}:place-on-market", place, status=200)


async def test_the_audit_names_each_row_that_was_changed(
    auditor: Api, superuser: Superuser, tenant: TenantId, batteries: None
) -> None:
    intact = await auditor.get_json("/v1/audit/verify")
    assert (intact["row_faults"], intact["faults"]) == ([], []), intact

    for attack, (statement, problem, says) in ATTACKS.items():
        async with tamper(superuser) as conn:
            await conn.execute(statement)
            verification = await verify_audit(conn, tenant)
        assert verification.state is not None
        faults = verification.state.faults
        assert [fault for fault in faults if fault.problem == problem and says in fault.says], (attack, faults)


async def test_a_registration_and_its_root_cannot_be_replaced_together(
    auditor: Api, superuser: Superuser, batteries: None
) -> None:
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute(
        """UPDATE battery_registrations SET total = 1, leaf_hashes = substring(leaf_hashes FOR 32),
                  root = substring(leaf_hashes FOR 32)"""
    )
    await superuser.execute("DELETE FROM batteries WHERE leaf_number > 0")

    faults = (await auditor.get_json("/v1/audit/verify"))["row_faults"]

    columns = {(fault["table"], fault["column"]) for fault in faults}
    assert {("battery_registrations", "root"), ("battery_registrations", "total")} <= columns
