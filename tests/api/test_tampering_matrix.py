"""What a superuser can do to history with all triggers off, and what shows it.

Each row of the table is an attack on a tenant whose log was published. It is looked for by `bpc audit verify` and `bpc
log audit`, first with nothing from outside, then with an audit checkpoint and a checkpoint of the log that were kept
elsewhere. The page docs/measurements/tampering.md is this table.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import asyncpg

from bpc.api.http.request_context import Service
from bpc.core.audit.checkpoint import Checkpoint, find_missing_events
from bpc.core.errors import Invalid
from bpc.core.formats.ids import TenantId
from bpc.core.tlog.audit import LogFault, audit_files, check_earlier
from bpc.core.tlog.checkpoints import open_checkpoint
from bpc.runtime import clock
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.audit import events
from bpc.storage.audit.verification import verify_audit
from bpc.storage.connection import Connection
from bpc.storage.tlog import log_audit
from bpc.storage.tlog.log_files import LogFolder
from bpc.tasks.log_sequencer import AuditHeads
from tests.api.conftest import Api
from tests.api.history_attacks import ATTACKS, FILE_ATTACKS, Installation, Outside
from tests.api.recorded_tenant import record_everything
from tests.api.tampering import HIDDEN_CHANGES, change_column, delete_rows, list_stored_columns, list_tables, tamper
from tests.measurements import choose_effort
from tests.storage.tlog.log_fixtures import SIGNER, make_sequencer

PAGE: Final = Path(__file__).parents[2] / "docs" / "measurements" / "tampering.md"
NOT_FOUND: Final = "no"
HEAD: Final = """\
# Tampering

What a superuser can do to the history of a tenant with all triggers off, and whether it is found. `make shown` renews
this page. "Alone": by `bpc audit verify` or `bpc log audit` on the installation itself, with the files of the log.
"With a kept checkpoint": also with a file of `bpc audit checkpoint` and a copy of `/log/checkpoint` from before.

**What nobody finds alone.** Where database and files were both rolled back to one moment, nothing on them remembers
more. A witness does: it refuses the next checkpoint for ever. So does the [signer](../signing-keys.md#the-signer),
whose record is its own: it refuses until the log is longer than what it has signed. And the log commits to where all
chains stand once an hour (`BPC_TLOG_AUDIT_HEAD_SECONDS`): what happened since then, and has no entry of its own in the
log, can be removed unseen until the next time. Batteries, their readings and their passports have
[a test of their own](../decisions/0148-audited-batteries.md).

| attack | alone | with a kept checkpoint |
|---|---|---|
"""


async def find_alone(conn: Connection, place: Installation) -> str:
    """What shows an attack on the installation itself: the first fault."""
    for tenant in (place.tenant, SYSTEM_TENANT):
        verification = await verify_audit(conn, tenant)
        if verification.chains.faults:
            fault = verification.chains.faults[0]
            return f"audit verify: {fault.stream.aggregate_type}: {fault.says}"
        if verification.state is not None and verification.state.faults:
            row = verification.state.faults[0]
            return f"audit verify: {row.table}: {row.says}"
    if strays := await events.list_events_without_tenant(conn):
        return f"audit verify: {strays[0].says}"
    try:
        entries = _read_log(place.folder)
        await log_audit.compare_entries(conn, entries)
        await log_audit.compare_tenant(conn, place.tenant, entries)
        await log_audit.check_published(conn, lambda: len(entries))
    except LogFault as log_fault:
        return f"log audit: {log_fault.says}"
    return NOT_FOUND


async def find_with_checkpoints(conn: Connection, place: Installation) -> str:
    """What shows an attack to whoever kept checkpoints."""
    audit, tenant = place.outside.audit, place.tenant
    heads = await events.load_heads(conn, tenant)
    hashes = await events.load_hashes_at(conn, tenant, audit.heads)
    if missing := list(find_missing_events(audit, heads, hashes)):
        return f"audit verify: {missing[0].stream.aggregate_type}: {missing[0].says}"
    folder = LogFolder(place.folder)
    try:
        checkpoint = open_checkpoint(folder.read_checkpoint() or b"", SIGNER.verifier).checkpoint
        check_earlier(checkpoint, place.outside.log, folder.read_tile)
    except Invalid as fault:
        return f"log audit: {fault.says}"
    return NOT_FOUND


def _read_log(folder: Path) -> Sequence[bytes]:
    log_folder = LogFolder(folder)
    try:
        checkpoint = open_checkpoint(log_folder.read_checkpoint() or b"", SIGNER.verifier).checkpoint
    except Invalid as wrong:
        raise LogFault("checkpoint", wrong.says) from None
    return list(audit_files(checkpoint, log_folder.read_tile))


async def _publish(admin: Api, service: Service, tenant: TenantId, folder: Path) -> Installation:
    """A tenant with a published log, and checkpoints that were kept."""
    await record_everything(admin, service, tenant)
    sequencer = make_sequencer(service.database, folder / "log")
    await sequencer.run_once()
    shutil.copytree(folder / "log", folder / "old")
    old = open_checkpoint((folder / "old" / "checkpoint").read_bytes(), SIGNER.verifier).checkpoint
    old_time = clock.now()
    product = (await admin.get_json("/v1/battery-products"))["items"][0]["battery_product_id"]
    await admin.post_json(f"/v1/battery-products/{product}:deactivate", {}, status=200)
    await AuditHeads(service.database).commit()
    await sequencer.run_once()
    async with service.database.tenant(tenant) as conn:
        heads = await events.load_heads(conn, tenant)
    log = open_checkpoint((folder / "log" / "checkpoint").read_bytes(), SIGNER.verifier).checkpoint
    outside = Outside(audit=Checkpoint(tenant_id=tenant, taken_at=clock.now(), heads=heads), log=log)
    return Installation(
        tenant=tenant,
        folder=folder / "log",
        old_folder=folder / "old",
        old_size=old.size,
        old_time=old_time,
        outside=outside,
    )


async def test_every_attack_on_history_is_found_given_a_kept_checkpoint(
    admin: Api, service: Service, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]", tmp_path: Path
) -> None:
    place = await _publish(admin, service, tenant, tmp_path)
    async with superuser.transaction():
        assert (await find_alone(superuser, place), await find_with_checkpoints(superuser, place)) == ("no", "no")
    results: dict[str, tuple[str, str]] = {}
    async with superuser.transaction():  # an hour has passed since the last checkpoint
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute("UPDATE log_checkpoints SET signed_at = signed_at - interval '1 hour'")

    every = choose_effort(test=3, shown=1, campaign=1)  # a third of them in make check
    for name, change in list(ATTACKS.items())[::every]:
        attacked = replace(place, folder=tmp_path / "attacked")
        shutil.copytree(place.folder, attacked.folder)
        async with tamper(superuser) as conn:
            await change(conn, attacked)
            results[name] = await find_alone(conn, attacked), await find_with_checkpoints(conn, attacked)
        shutil.rmtree(attacked.folder)
    for table in choose_effort(test=[], shown=list_tables(), campaign=list_tables()):
        for verb in ("change", "delete"):
            async with tamper(superuser) as conn:
                if verb == "delete":
                    await delete_rows(conn, tenant, table)
                elif columns := await list_stored_columns(conn, table):
                    await change_column(conn, tenant, table, columns[-1])
                else:
                    continue
                if not (verb == "delete" and table.may_vanish):
                    results[f"{verb} rows of {table.name}"] = (
                        await find_alone(conn, place),
                        await find_with_checkpoints(conn, place),
                    )
    for hidden in choose_effort(test=(), shown=HIDDEN_CHANGES, campaign=HIDDEN_CHANGES):
        async with tamper(superuser) as conn:
            await conn.execute(hidden.statement, tenant)
            results[_name_statement(hidden.statement)] = (
                await find_alone(conn, place),
                await find_with_checkpoints(conn, place),
            )
    for name, change_files in list(FILE_ATTACKS.items())[::every]:
        forged = replace(place, folder=tmp_path / "forged")
        shutil.copytree(place.folder, forged.folder)
        change_files(forged.folder, place.old_folder)
        async with superuser.transaction():
            results[name] = await find_alone(superuser, forged), await find_with_checkpoints(superuser, forged)
        shutil.rmtree(forged.folder)

    rows = {
        name: f"| {name} | {_cell(alone)} | {_cell(kept if alone == NOT_FOUND else alone)} |"
        for name, (alone, kept) in results.items()
    }
    if os.environ.get("BPC_MEASUREMENTS"):
        (Path(os.environ["BPC_MEASUREMENTS"]) / PAGE.name).write_text(HEAD + "\n".join(rows.values()) + "\n")
    assert [name for name, findings in results.items() if set(findings) == {NOT_FOUND}] == []
    assert [row for row in rows.values() if row not in PAGE.read_text()] == []


def _name_statement(statement: str) -> str:
    """What a statement does, as a row of the table: the column, or the rows, and the table."""
    words = statement.split()
    if words[0] == "UPDATE":
        return f"change {words[3]} of {words[1]}"
    return f"{'add' if words[0] == 'INSERT' else 'delete'} rows of {words[2]}"


def _cell(finding: str) -> str:
    """Whether it is found, and by which command."""
    return f"yes, `bpc {finding.partition(':')[0]}`" if finding != NOT_FOUND else "**no**"
