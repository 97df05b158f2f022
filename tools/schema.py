"""Write src/bpc/storage/schema.sql: what the migrations make, in one readable file.

    migrations ─► an empty database ─► pg_dump ─► grouped by table, without noise ─► schema.sql

The file is for reading and for reviewing changes; nothing loads it. A test compares it with the migrations.
"""

import asyncio
import re
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

import asyncpg

from bpc.runtime import postgres
from bpc.runtime.postgres.address import Address
from bpc.runtime.postgres.programs import find_binaries, find_server_account
from bpc.storage.database import prepare_embedded_server
from bpc.storage.migrate import list_migrations, migrate

SCHEMA = Path(__file__).parent.parent / "src" / "bpc" / "storage" / "schema.sql"
HEADER = """\
-- What the migrations make of an empty database. Made by `make cases`, compared by a test, loaded by nobody.
"""
ENTRY = re.compile(r"^-- Name: (?P<name>.*); Type: (?P<type>.*); Schema: (?P<schema>.*); Owner: .*$", re.MULTILINE)
BEFORE_TABLES = ("TYPE", "DOMAIN", "FUNCTION")
PIECES = (
    "TABLE",
    "TABLE ATTACH",
    "VIEW",
    "SEQUENCE",
    "CONSTRAINT",
    "FK CONSTRAINT",
    "INDEX",
    "INDEX ATTACH",
    "TRIGGER",
    "ROW SECURITY",
    "POLICY",
    "ACL",
)


def dump_schema(address: Address) -> str:
    """The schema of a migrated database of the embedded server, as it stands in schema.sql."""
    account = find_server_account()
    command = [str(find_binaries(account) / "pg_dump"), "--schema-only", "--no-owner"]
    command += [f"--schema={schema}" for schema in ("public", "jobs")]
    command += ["-h", address.host, "-p", str(address.port), "-U", address.user, address.database]
    text = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout
    return _format_schema(text)


def _format_schema(text: str) -> str:
    """One block per type, function and table, each table with all that belongs to it."""
    before: dict[str, list[str]] = defaultdict(list)
    tables: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    entries = list(ENTRY.finditer(text))
    for entry, following in zip(entries, [*entries[1:], None], strict=True):
        sql = _clean_sql(text[entry.end() : following.start() if following else len(text)])
        kind, name = entry["type"], entry["name"]
        if kind in BEFORE_TABLES or (kind == "ACL" and name.startswith("FUNCTION ")):
            before["FUNCTION" if kind == "ACL" else kind].append(sql)
        elif kind != "SCHEMA" and "SCHEMA " not in name:
            table = _find_table(kind, name, sql)
            tables[table if entry["schema"] == "public" else f"{entry['schema']}.{table}"][kind].append(sql)
    blocks = ["\n".join(before[kind]) for kind in BEFORE_TABLES]
    for table in sorted(tables):
        pieces = [f"-- {table} " + "-" * (110 - len(table))]
        for kind in PIECES:
            pieces += tables[table].pop(kind, [])
        if tables[table]:
            raise ValueError(f"schema.sql has no place for {sorted(tables[table])} of {table}")
        blocks.append("\n".join(pieces))
    return HEADER + "\n" + "\n\n".join(blocks) + "\n"


def _clean_sql(sql: str) -> str:
    lines = [line for line in sql.replace("public.", "").split("\n") if line.strip() and line.strip() != "--"]
    useful = [line for line in lines if not line.startswith(("SET ", "SELECT pg_catalog", "\\", "-- PostgreSQL"))]
    return re.sub(r"\n    ADD CONSTRAINT", " ADD CONSTRAINT", "\n".join(useful)).replace(
        "ALTER TABLE ONLY", "ALTER TABLE"
    )


def _find_table(kind: str, name: str, sql: str) -> str:
    if kind in {"INDEX", "SEQUENCE"}:  # a sequence is that of an identity column
        table_match = re.search(r"(?: ON |^ALTER TABLE )(?:\w+\.)?(\w+)", sql)
        if table_match is None:
            raise ValueError(f"no table in {sql}")
        return table_match[1]
    if kind == "INDEX ATTACH":  # only primary keys of partitions are attached
        return name.removesuffix("_pkey")
    if kind == "ACL":
        return name.removeprefix("TABLE ").removeprefix("COLUMN ").split(".")[0]
    return name.split(" ", maxsplit=1)[0]


async def _migrate_database(server: postgres.EmbeddedServer) -> Address:
    await prepare_embedded_server(server, "bpc")
    conn = await asyncpg.connect(**server.address("bpc").connect_arguments())
    await migrate(conn, list_migrations())
    await conn.close()
    return server.superuser_address("bpc")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bpc-schema-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        server = postgres.use_server(Path(folder))
        try:
            text = dump_schema(asyncio.run(_migrate_database(server)))
        finally:
            server.release_and_wait()
    changed = not SCHEMA.exists() or SCHEMA.read_text() != text
    SCHEMA.write_text(text)
    print(f"{SCHEMA.name}: {'rewritten, read the diff' if changed else 'unchanged'}")


if __name__ == "__main__":
    main()
