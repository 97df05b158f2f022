"""Take in the archive of a tenant: its rows, its packs and the public keys that signed for it.

    folder ── open_archive ──► keys, retired ─► packs ─► rows, TENANT_IMPORTED: one transaction

The tenant is inactive afterwards: no API key of it opens anything, while its public pages, views and files are served.
An operator who takes over reactivates it. What was signed stays as it was signed, by keys that are known here and sign
nothing more. Its events join the transparency log of this installation.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.audit.signing import from_base64, parse_public_key
from bpc.core.errors import Conflict, Invalid, NotFound
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import from_hex
from bpc.core.formats.ids import TenantId, parse_uuid
from bpc.storage.archive.tenant_export import ARCHIVE_VERSION, TABLES_FOLDER, TENANT_NAME
from bpc.storage.archive.tenant_tables import LATE_COLUMN, LATE_REFERENCE, TenantTable, list_tables, quote_columns
from bpc.storage.audit import events
from bpc.storage.audit.signing_keys import find_public_key, register_key, retire_key
from bpc.storage.backup import MANIFEST_HASH_NAME, BackupDamaged, check_backup, read_manifest
from bpc.storage.connection import OWNER_ROLE, Connection
from bpc.storage.database import Database, begin_transaction, use_system_role
from bpc.storage.items.packs import PACKS_FOLDER, PackStore
from bpc.storage.migrate import list_migrations

ROWS_AT_ONCE: Final = 500
CHARS_AT_ONCE: Final = 8_000_000
# Guards of tables against rows that come late: into a sealed snapshot, into published rules, before an anchor. Events
# keep theirs, which puts them into the log.
SELECT_GUARDED: Final[LiteralString] = """
    SELECT DISTINCT c.relname AS name FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE NOT t.tgisinternal AND t.tgtype & 4 <> 0 AND t.tgconstraint = 0
       AND c.relnamespace = 'public'::regnamespace AND c.relname <> 'events'
     ORDER BY 1
"""
SELECT_TAKEN: Final[LiteralString] = "SELECT slug FROM tenants WHERE tenant_id = $1 OR slug = $2"
DEACTIVATE: Final[LiteralString] = "UPDATE tenants SET is_active = false WHERE tenant_id = $1"


class TenantThere(Conflict):
    """The installation has this tenant, or another one of its name."""

    def __init__(self, slug: str) -> None:
        super().__init__(
            f"there is a tenant `{slug}` in this installation",
            fix="import into another installation: an archive is never mixed with what is there",
        )


class OtherTables(Conflict):
    """The archive was written by a build with other tables."""

    def __init__(self, archived: str, current: str) -> None:
        super().__init__(
            f"the archive has the tables of migration `{archived}`, and this build those of `{current}`",
            fix="import with the release that exported, then upgrade",
            details={"archived": archived, "current": current},
        )


class KeyNameTaken(Conflict):
    """A signing key of this installation has the name of one that the archive needs."""

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"the archive was signed with a key `{key_id}`, and another key has that name here",
            fix="import into an installation whose signing keys have other names",
            details={"key_id": key_id},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantArchive:
    """A checked archive: whose it is, which keys signed for it, and the hash of its manifest."""

    folder: Path
    tenant_id: TenantId
    slug: str
    keys: Sequence[Any]
    manifest_sha256: str
    build: str


def open_archive(folder: Path) -> TenantArchive:
    """Compare every file with the manifest. Raises `BackupDamaged` or `OtherTables`."""
    if read_manifest(folder).kind != "tenant":
        raise NotFound(f"`{folder}` is the backup of an installation", hint="restore an installation")
    manifest = check_backup(folder)
    document: Any = canonical_json.decode((folder / TENANT_NAME).read_bytes())
    if document["archive_version"] != ARCHIVE_VERSION:
        raise Invalid(f"`{folder}` has a format that this version cannot read", fix="upgrade bpc")
    current = list_migrations()[-1].name
    if document["migration"] != current:
        raise OtherTables(document["migration"], current)
    return TenantArchive(
        folder=folder,
        tenant_id=TenantId(parse_uuid(document["tenant_id"])),
        slug=document["slug"],
        keys=document["keys"],
        manifest_sha256=(folder / MANIFEST_HASH_NAME).read_text().strip(),
        build=manifest.build,
    )


async def import_tenant(
    database: Database, archive: TenantArchive, packs: PackStore, *, act: Act, follows: bool = False
) -> int:
    """Take in a tenant that this installation does not have; the number of its rows. It is inactive afterwards.

    One that `follows` another installation has no event of its own, because the next ones come from there.
    """
    async with database.system() as conn:
        taken_slug: str | None = await conn.fetchval(SELECT_TAKEN, archive.tenant_id, archive.slug)
    if taken_slug is not None:
        raise TenantThere(taken_slug)
    await _refuse_keys_of_tenant(database, archive)
    await register_keys(database, archive, act)
    await asyncio.to_thread(copy_packs, packs, archive.folder)
    async with database.plain() as conn, begin_transaction(conn, OWNER_ROLE, archive.tenant_id):
        tables = await list_tables(conn)
        await asyncio.to_thread(_require_same_tables, archive.folder, tables)
        guarded_tables = [row["name"] for row in await conn.fetch(SELECT_GUARDED)] + [LATE_REFERENCE[0]]
        async with lift_guards(conn, guarded_tables):
            row_counts = [await _insert_rows(conn, table, archive.folder) for table in tables]
            await set_late_references(conn, archive.folder)
        async with use_system_role(conn):
            await conn.execute(DEACTIVATE, archive.tenant_id)
            if not follows:
                await _record_import(conn, archive, act)
    return sum(row_counts)


async def _record_import(conn: Connection, archive: TenantArchive, act: Act) -> None:
    tenant, origin = archive.tenant_id, {"build": archive.build, "manifest_sha256": archive.manifest_sha256}
    await events.append_act(conn, act, tenant, "Tenant", tenant, "TENANT_IMPORTED", origin)
    await events.append_act(conn, act, tenant, "Tenant", tenant, "TENANT_CHANGED", {"is_active": False})


async def _refuse_keys_of_tenant(database: Database, archive: TenantArchive) -> None:
    """Raise `KeyNameTaken` if a key of the tenant, which is among its rows, has the name of one that is known."""
    for key in archive.keys:
        async with database.system() as conn:
            if key["is_of_tenant"] and await find_public_key(conn, key["key_id"]) is not None:
                raise KeyNameTaken(key["key_id"])


async def register_keys(database: Database, archive: TenantArchive, act: Act) -> None:
    """Make the keys known that signed for the tenant. They sign nothing here: nobody has their private halves."""
    for key in archive.keys:
        public_key = parse_public_key(from_base64(key["public_key"]))
        async with database.system() as conn:
            known_key = await find_public_key(conn, key["key_id"])
        if known_key is not None and known_key != public_key:
            raise KeyNameTaken(key["key_id"])
        if known_key is None and not key["is_of_tenant"]:  # those of the tenant are among its rows
            await register_key(database, key["key_id"], public_key, act=act)
            await retire_key(database, key["key_id"], act=act)


def copy_packs(packs: PackStore, folder: Path) -> None:
    """Take in the packs of an archive; each is compared with its name."""
    for file in sorted((folder / PACKS_FOLDER).rglob("*.pack")):
        if packs.write(file.read_bytes()) != from_hex(file.stem):
            raise BackupDamaged(folder, [f"`{file.name}` has another name than its bytes"])


def _require_same_tables(folder: Path, tables: Sequence[TenantTable]) -> None:
    names = {path.stem for path in (folder / TABLES_FOLDER).iterdir()}
    if wrong_names := sorted(names ^ {table.name for table in tables}):
        raise BackupDamaged(folder, [f"`{name}` is not a table of both" for name in wrong_names])


@asynccontextmanager
async def lift_guards(conn: Connection, names: Iterable[str]) -> AsyncIterator[None]:
    """Let rows of these tables in as they were. What one table says of another is checked all the same."""
    names = list(names)
    for name in names:
        await conn.execute(f'ALTER TABLE public."{name}" DISABLE TRIGGER USER')
    yield  # after an error the transaction is rolled back, and with it what was lifted
    for name in names:
        await conn.execute(f'ALTER TABLE public."{name}" ENABLE TRIGGER USER')


async def _insert_rows(conn: Connection, table: TenantTable, folder: Path) -> int:
    columns = tuple(name for name in table.columns if (table.name, name) != (LATE_REFERENCE[0], LATE_COLUMN))
    names = quote_columns(columns)
    statement = (
        f"INSERT INTO public.{table.name} ({names})"
        f" SELECT {names} FROM json_populate_recordset(NULL::public.{table.name}, $1::text::json)"
    )
    count = 0
    for lines in read_lines(folder, table.name):
        await conn.execute(statement, f"[{','.join(lines)}]")
        count += len(lines)
    return count


async def set_late_references(conn: Connection, folder: Path) -> None:
    """Set what names rows that came later in the archive."""
    source, _ = LATE_REFERENCE
    statement = (
        f"UPDATE public.{source} AS t SET {LATE_COLUMN} = r.{LATE_COLUMN}"
        f" FROM json_populate_recordset(NULL::public.{source}, $1::text::json) AS r"
        " WHERE t.tenant_id = r.tenant_id AND t.passport_id = r.passport_id"
    )
    for lines in read_lines(folder, source):
        await conn.execute(statement, f"[{','.join(lines)}]")


def read_lines(folder: Path, name: str) -> Iterator[list[str]]:
    """The rows of a table, some at a time."""
    lines, size = list[str](), 0
    path = folder / TABLES_FOLDER / f"{name}.jsonl"
    if not path.exists():  # nothing of it changed since the part before
        return
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            lines.append(line)
            size += len(line)
            if len(lines) == ROWS_AT_ONCE or size > CHARS_AT_ONCE:
                yield lines
                lines, size = [], 0
    if lines:
        yield lines
