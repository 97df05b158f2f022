"""Whoever changes passports of batteries behind our back is found: in the database and in the packs."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime.settings import Settings
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.item_fixtures import find_battery, issue_items, issue_model

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

ATTACKS = {
    "removed": ("DELETE FROM item_passport_versions WHERE leaf_number = 1", "DELETED", "passport 1 of chunk"),
    "changed": (
        "UPDATE item_passport_versions SET receipt_hash = sha256(receipt_hash) WHERE leaf_number = 2",
        "CHANGED",
        "it is not passport 2 of chunk",
    ),
    "count": (
        "UPDATE item_passport_versions SET warn_count = warn_count + 1 WHERE leaf_number = 2",
        "CHANGED",
        "it is not passport 2 of chunk",
    ),
    "input": (
        "UPDATE item_passport_versions SET input_hash = sha256(input_hash) WHERE leaf_number = 0",
        "CHANGED",
        "it is not passport 0 of chunk",
    ),
    "added": (
        """INSERT INTO item_passport_versions
           SELECT tenant_id, battery_id, gen_random_uuid(), item_chunk_id, issued_at + interval '1 day', 7, pack_offset,
                  pack_length, 0, 0, status, receipt_hash, input_hash FROM item_passport_versions LIMIT 1""",
        "ADDED",
        "issued 3 passports, and this is one more",
    ),
    "hash": (
        "UPDATE item_chunks SET leaf_hashes = leaf_hashes || leaf_hashes, issued = 6, total = 6",
        "CHANGED",
        "it is 6, and its event says 3",
    ),
    "leaves": (
        "UPDATE item_chunks SET leaf_hashes = set_byte(leaf_hashes, 0, get_byte(leaf_hashes, 0) # 1)",
        "CHANGED",
        "they do not give its root",
    ),
    "root": ("UPDATE item_chunks SET root = sha256(root)", "CHANGED", "and its event says"),
    "chunk": (
        "DELETE FROM item_passport_versions; DELETE FROM item_chunks",
        "DELETED",
        "its event says that passports were issued",
    ),
}


@pytest.fixture
async def run(admin: Api, service: Service, database: Database, tenant: TenantId, act: Act) -> str:
    await issue_model(admin, service, database, tenant, act)
    return str((await issue_items(admin, service))["run_id"])


@pytest.mark.parametrize("attack", list(ATTACKS))
async def test_the_audit_names_what_was_changed(auditor: Api, superuser: Superuser, run: str, attack: str) -> None:
    statement, problem, says = ATTACKS[attack]
    assert await list_faults(auditor) == []

    await superuser.execute(f"SET session_replication_role = replica; {statement}")

    [fault] = await list_faults(auditor)
    assert (fault["problem"], says in fault["says"]) == (problem, True), fault


@pytest.mark.parametrize(
    ("statement", "table", "column"),
    [
        ("UPDATE item_runs SET total = total + 1", "item_runs", "total"),
        ("UPDATE item_runs SET stopped_at = now()", "item_runs", "stopped_at"),
        ("UPDATE item_runs SET secret = 'other'", "item_runs", "secret"),
        ("UPDATE battery_batches SET plant = 'GLN:1'", "battery_batches", "plant"),
        ("UPDATE battery_batches SET batch_number = 'B9'", "battery_batches", "batch_number"),
    ],
)
async def test_the_audit_compares_runs_and_batches_with_their_events(
    auditor: Api, officer: Api, superuser: Superuser, run: str, statement: str, table: str, column: str
) -> None:
    await officer.post_json(f"/v1/item-runs/{run}:stop", status=200)
    await officer.post_json(f"/v1/item-runs/{run}:resume", status=200)
    before = (await auditor.get_json("/v1/audit/verify"))["row_faults"]

    await superuser.execute(f"SET session_replication_role = replica; {statement}")

    after = (await auditor.get_json("/v1/audit/verify"))["row_faults"]
    assert [fault["table"] for fault in before if fault["table"] == table] == []
    assert [(fault["table"], fault["column"]) for fault in after if fault["table"] == table] == [(table, column)]


async def list_faults(auditor: Api) -> list[dict[str, Any]]:
    """What the audit says of passports of batteries; the rules of this test were published without events."""
    faults = (await auditor.get_json("/v1/audit/verify"))["row_faults"]
    return [fault for fault in faults if fault["table"].startswith("item_")]


async def flip_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


async def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(("attack", "says"), [(flip_byte, "battery"), (remove, "is not there")])
async def test_a_changed_pack_is_noticed_at_each_read(
    auditor: Api, settings: Settings, run: str, attack: Callable[[Path], Awaitable[None]], says: str
) -> None:
    battery = await find_battery(auditor, "A3")  # the last of its pack
    assert (await auditor.send("GET", f"/v1/batteries/{battery}/payload")).status_code == 200
    [pack] = (settings.data_dir / "packs").rglob("*.pack")

    await attack(pack)

    answer = await auditor.send("GET", f"/v1/batteries/{battery}/payload")
    assert (answer.status_code in {409, 422}, says in answer.json()["error"]["message"]) == (True, True), answer.text


async def test_rows_of_two_batteries_cannot_be_swapped(auditor: Api, superuser: Superuser, run: str) -> None:
    """Each read compares the hash of the receipt on record with what the pack gives."""
    battery = await find_battery(auditor, "A1")
    await superuser.execute(
        """SET session_replication_role = replica;
           UPDATE item_passport_versions v SET pack_offset = o.pack_offset, pack_length = o.pack_length
             FROM item_passport_versions o WHERE v.leaf_number = 0 AND o.leaf_number = 1"""
    )

    answer = await auditor.send("GET", f"/v1/batteries/{battery}/payload")

    assert "holds another battery" in answer.json()["error"]["message"]
