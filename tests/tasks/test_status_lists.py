"""Status lists in a worker: every issued version has an index, and what became of it is signed, once and in time."""

import asyncio
import json
import random  # noqa: TID251 (seeded)
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from bpc.core.audit.events import Act, EventStream
from bpc.core.audit.signing import Seed, Signer
from bpc.core.errors import Refusal
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import AggregateId, PassportVersionId, TenantId
from bpc.core.signing_forms import read_signing_order
from bpc.core.status.signed_documents import add_signature
from bpc.core.status.statements import StatusStatement, read_statement
from bpc.core.status.status_list import LIST_ENTRIES, ListHead, PassportState, StatusList, read_status_list
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.storage.audit import events, tenant_keys
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.passports import passport_versions, status_rows
from bpc.tasks.status_lists import (
    StatusPublisher,
    StatusSigner,
    encode_list,
    keep_status_lists,
    make_signer_source,
)
from tests.measurements import RecordMeasurement, choose_effort
from tests.storage.rows import KEY_ID, SIGNED_RECEIPT, insert_passport_version, insert_signing_keys

SIGNER = Signer(Seed(bytes(range(32))))


async def sign(kind: str, unsigned: bytes) -> bytes:
    return SIGNER.sign(read_signing_order(kind, unsigned).message)


NEXT_SIGNER = Signer(Seed(bytes(range(1, 33))))


async def open_next_signer(_: Connection, __: TenantId) -> StatusSigner:
    async def sign_next(kind: str, unsigned: bytes) -> bytes:
        return NEXT_SIGNER.sign(read_signing_order(kind, unsigned).message)

    return StatusSigner("next-key", sign_next)


async def open_signer(_: Connection, __: TenantId) -> StatusSigner:
    return StatusSigner(KEY_ID, sign)


def make_publisher(database: Database) -> StatusPublisher:
    return StatusPublisher(database=database, open_signer=open_signer, base_url="https://passports.example")


async def issue_versions(database: Database, tenant: TenantId, count: int) -> list[PassportVersionId]:
    """Versions that are signed as the pipeline does it, each in a transaction of its own."""
    versions = []
    for _ in range(count):
        async with database.tenant(tenant) as conn:
            version = PassportVersionId(await insert_passport_version(conn, tenant))
            await passport_versions.set_signature(
                conn, tenant, version, receipt=SIGNED_RECEIPT, signature=bytes(64), key_id=KEY_ID
            )
        versions.append(version)
    return versions


async def revoke_version(database: Database, tenant: TenantId, act: Act, version: PassportVersionId) -> None:
    async with database.tenant(tenant) as conn:
        await passport_versions.set_version_status(conn, tenant, version, "REVOKED", at=act.at)
        stream = EventStream(tenant, "PassportVersion", AggregateId(version))
        await events.append(conn, stream, act.new_event("PASSPORT_REVOKED", {"reason": "recalled", "was": "SIGNED"}))


async def load_status(database: Database, version: PassportVersionId) -> tuple[StatusStatement, StatusList]:
    async with database.system() as conn:
        statement = read_statement(await status_rows.find_newest_statement(conn, version) or b"")
        list_id = UUID(statement.place.list_url.rpartition("/")[2])
        status_list = read_status_list(await status_rows.find_list_document(conn, list_id) or b"")
    assert statement.signature is not None
    assert statement.signature.is_by(SIGNER.public_key)
    assert status_list.signature.is_by(SIGNER.public_key)
    assert status_list.head.url == statement.place.list_url
    return statement, status_list


async def test_a_version_has_its_index_when_it_is_issued_and_a_revocation_is_signed(
    database: Database, tenant: TenantId, act: Act
) -> None:
    await insert_signing_keys(database)
    versions = await issue_versions(database, tenant, 3)
    publisher = make_publisher(database)

    await publisher.publish_due()
    issued, before = await load_status(database, versions[0])
    await revoke_version(database, tenant, act, versions[0])
    await publisher.publish_due()
    revoked, after = await load_status(database, versions[0])

    assert (issued.status, issued.receipt_hash) == ("issued", sha256(b'{"receipt_version":"BPC-RECEIPT-1"}'))
    assert (revoked.status, revoked.reason, revoked.since) == ("revoked", "recalled", act.at)
    assert issued.place == revoked.place
    assert before.get_state(issued.place.index) == PassportState.IN_FORCE
    states = [after.get_state(index) for index in range(LIST_ENTRIES)]
    assert states.count(PassportState.REVOKED) == 1
    assert states[issued.place.index] == PassportState.REVOKED
    async with database.tenant(tenant) as conn:
        binding = await status_rows.find_binding_statement(conn, tenant, versions[0])
    assert binding is not None
    assert read_statement(binding) == issued
    assert await publisher.publish_due() == 0, "nothing is left to sign"


async def test_versions_from_before_get_an_index_and_say_what_became_of_them(
    database: Database, tenant: TenantId, act: Act, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await insert_signing_keys(database)
    async with database.tenant(tenant) as conn:
        versions = {
            status: PassportVersionId(await insert_passport_version(conn, tenant, status=status))
            for status in ("SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED", "COMPILING")
        }
        stream = EventStream(tenant, "PassportVersion", AggregateId(versions["SUPERSEDED"]))
        by = {"by_passport_version_id": str(versions["ACTIVE"])}
        await events.append(conn, stream, act.new_event("PASSPORT_SUPERSEDED", by))
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("DELETE FROM status_entries")  # an older release gave them none
    publisher = make_publisher(database)

    assert await publisher.assign_missing() == 4
    assert await publisher.assign_missing() == 0
    await publisher.publish_due()

    status_by_version = {
        status: await load_status(database, versions[status]) for status in versions if status != "COMPILING"
    }
    assert {status: statement.status for status, (statement, _) in status_by_version.items()} == {
        "SIGNED": "issued",
        "ACTIVE": "issued",
        "SUPERSEDED": "superseded",
        "REVOKED": "revoked",
    }
    for statement, status_list in status_by_version.values():
        assert status_list.get_state(statement.place.index) == statement.state
    assert status_by_version["SUPERSEDED"][0].successor == versions["ACTIVE"]
    async with database.tenant(tenant) as conn:
        assert await status_rows.find_binding_statement(conn, tenant, versions["REVOKED"]) is not None


async def test_a_list_is_signed_again_in_time_and_by_one_worker_at_a_time(
    database: Database, tenant: TenantId, act: Act
) -> None:
    await insert_signing_keys(database)
    [version] = await issue_versions(database, tenant, 1)
    publishers = [make_publisher(database) for _ in range(3)]
    await publishers[0].publish_due()
    async with database.system(tenant) as conn:
        await conn.execute("UPDATE status_lists SET valid_until = now() + interval '11 hours', signed_at = now()")
    await revoke_version(database, tenant, act, version)

    await asyncio.gather(*(publisher.publish_due() for publisher in publishers))

    statement, status_list = await load_status(database, version)
    assert statement.status == "revoked"
    assert status_list.get_state(statement.place.index) == PassportState.REVOKED
    assert status_list.head.valid_until > clock.now() + timedelta(hours=23)


async def test_a_full_list_is_followed_by_another(database: Database, tenant: TenantId) -> None:
    """Sixteen indices in a row that are taken: here all of them are."""
    await insert_signing_keys(database)
    [first] = await issue_versions(database, tenant, 1)
    async with database.tenant(tenant) as conn:
        await conn.execute(
            """INSERT INTO status_entries (tenant_id, passport_version_id, list_id, list_index, statement_due)
               SELECT l.tenant_id, gen_random_uuid(), l.list_id, i, false
                 FROM status_lists l, generate_series(0, 131071) AS i
               ON CONFLICT DO NOTHING"""
        )
    second, third = await issue_versions(database, tenant, 2)
    await make_publisher(database).publish_due()

    urls = [(await load_status(database, version))[0].place.list_url for version in (first, second, third)]
    assert urls[0] != urls[1] == urls[2]


async def test_status_rows_are_the_tenants_own_and_never_taken_back(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    await insert_signing_keys(database)
    [version] = await issue_versions(database, tenant, 1)
    await make_publisher(database).publish_due()
    await revoke_version(database, tenant, act, version)

    async with database.tenant(other_tenant) as conn:
        assert await status_rows.find_binding_statement(conn, tenant, version) is None
        assert await conn.fetchval("SELECT count(*) FROM status_entries") == 0
    for statement in ("UPDATE status_entries SET state = 0", "UPDATE status_entries SET list_index = 1"):
        with pytest.raises(Exception, match=r"taken back|permission denied"):
            async with database.tenant(tenant) as conn:
                await conn.execute(statement)


async def test_after_a_compromise_everything_is_said_again_with_the_next_key_and_bundles_keep_their_statement(
    database: Database, tenant: TenantId, act: Act
) -> None:
    await insert_signing_keys(database)
    in_force, revoked = await issue_versions(database, tenant, 2)
    await revoke_version(database, tenant, act, revoked)
    await make_publisher(database).publish_due()
    async with database.tenant(tenant) as conn:
        binding = await status_rows.find_binding_statement(conn, tenant, in_force)

    await tenant_keys.report_installation_compromise(database, KEY_ID, since=act.at, reason="stolen", act=act)
    publisher = StatusPublisher(database=database, open_signer=open_next_signer, base_url="https://passports.example")
    assert await publisher.publish_due() == 3, "two statements and the list"

    for version, status in ((in_force, "issued"), (revoked, "revoked")):
        async with database.system() as conn:
            statement = read_statement(await status_rows.find_newest_statement(conn, version) or b"")
            list_id = UUID(statement.place.list_url.rpartition("/")[2])
            status_list = read_status_list(await status_rows.find_list_document(conn, list_id) or b"")
        assert statement.signature is not None
        assert statement.signature.is_by(NEXT_SIGNER.public_key)
        assert status_list.signature.is_by(NEXT_SIGNER.public_key)
        assert (statement.status, status_list.get_state(statement.place.index)) == (status, statement.state)
    async with database.tenant(tenant) as conn:
        assert await status_rows.find_binding_statement(conn, tenant, in_force) == binding
    assert await publisher.publish_due() == 0


async def test_a_tenant_whose_key_cannot_sign_keeps_no_other_waiting(
    database: Database, tenant: TenantId, other_tenant: TenantId
) -> None:
    await insert_signing_keys(database)
    versions = {each: (await issue_versions(database, each, 1))[0] for each in (tenant, other_tenant)}
    stuck = min(versions)  # tenants are taken in this order
    attempts = []

    async def open_signer_of_others(conn: Connection, each: TenantId) -> StatusSigner:
        if each == stuck:
            attempts.append(each)
            raise Refusal("its only key is retired")
        return await open_signer(conn, each)

    publisher = StatusPublisher(
        database=database, open_signer=open_signer_of_others, base_url="https://passports.example"
    )
    for _ in range(3):
        await publisher.publish_due()

    async with database.system() as conn:
        is_signed = {
            each: await status_rows.find_newest_statement(conn, version) is not None
            for each, version in versions.items()
        }
    assert is_signed == {each: each != stuck for each in versions}
    assert len(attempts) == 1, "it is tried again after a while"


async def test_a_worker_signs_by_itself_and_says_why_if_it_cannot(
    database: Database, tenant: TenantId, tmp_path: Path
) -> None:
    await insert_signing_keys(database)
    [version] = await issue_versions(database, tenant, 1)
    settings = Settings(data_dir=tmp_path, env="test")
    ring = KeyRing({settings.signing_key_id: SIGNER})

    async with database.system(tenant) as conn:
        with pytest.raises(Refusal, match="cannot sign the status lists"):
            await make_signer_source(settings, ring)(conn, tenant)
    async with keep_status_lists(settings, database, ring):
        await asyncio.sleep(0.2)
    async with keep_status_lists(settings.model_copy(update={"env": "prod"}), database, ring):
        pass
    async with database.system() as conn:
        assert await status_rows.find_newest_statement(conn, version) is None


def sign_list(head: ListHead, states: Sequence[tuple[int, PassportState]]) -> bytes:
    unsigned = encode_list(head, states)
    return add_signature(unsigned, SIGNER.sign(sha256(unsigned)))


def test_building_and_signing_a_list_is_measured(record_measurement: RecordMeasurement) -> None:
    """A list of 131,072 entries, none, one in a hundred and all of which are not in force."""
    repeats = choose_effort(test=2, shown=50, campaign=200)
    head = ListHead(
        url="https://passports.example/status/lists/77777777-0000-4000-8000-000000000007",
        issuer="https://passports.example",
        tenant_id=TenantId(UUID(int=1)),
        signing_key_id=KEY_ID,
        valid_from=clock.now(),
        valid_until=clock.now() + timedelta(hours=23),
    )
    figures: dict[str, Any] = {"entries": LIST_ENTRIES}
    for name, step in (("none", 0), ("one_percent", 100), ("all", 1)):
        noise = random.Random(step)
        indices = noise.sample(range(LIST_ENTRIES), LIST_ENTRIES // step) if step else []
        states = [(index, PassportState(noise.randrange(4))) for index in indices]
        start = time.perf_counter()
        documents = [sign_list(head, states) for _ in range(repeats)]
        figures[f"{name}_ms"] = round((time.perf_counter() - start) / repeats * 1000, 2)
        figures[f"{name}_bytes"] = len(documents[0])
        assert json.loads(documents[0])["signing_key_id"] == KEY_ID
    record_measurement("status-lists", **figures)
