"""Putting a backup back, into a place where nothing is. It was checked before, file by file (`manifest.check`)."""

import os
import shutil
from pathlib import Path
from typing import Final, LiteralString

from bpc.core.errors import Conflict
from bpc.db.address import Address
from bpc.db.backup.manifest import Manifest
from bpc.db.backup.script import play
from bpc.db.connection import connected
from bpc.db.embedded.account import Account, server_account
from bpc.db.embedded.layout import Layout
from bpc.db.roles import ensure_roles
from bpc.settings import data_dir

TABLES: Final[LiteralString] = """
    SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('public', 'jobs') AND c.relkind IN ('r', 'p')
"""


class NotEmpty(Conflict):
    """There is something where the backup is to go."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is not empty, and a backup is never put over what is there",
            fix="restore into another data directory or database, look at it, then switch over",
        )


class OtherKind(Conflict):
    """A copy of files goes into a data directory, a dump into a database."""

    def __init__(self, kind: str, goes: str) -> None:
        super().__init__(f"this backup is a {kind}, which goes into {goes}", fix=f"restore it into {goes}")


def restore_base(backup: Path, found: Manifest, folder: Path) -> None:
    """The embedded server's files into an empty data directory, ready to be started."""
    if found.kind != "base":
        raise OtherKind(found.kind, "a database: set DATABASE_URL")
    layout, account = Layout(data_dir.prepare(folder).resolve()), server_account()
    if (layout.known_cluster() / "PG_VERSION").exists():
        raise NotEmpty(f"the data directory `{folder}`")
    cluster = layout.cluster_folder(account)
    aside = cluster.with_name(cluster.name + ".restored")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        shutil.copytree(backup / "base", aside, symlinks=True)
        _hand_over(aside, account)
        aside.rename(cluster)  # until here, nothing looks like a cluster
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    restore_keys(backup, folder)


def restore_keys(backup: Path, folder: Path) -> None:
    """The private keys, where the backup has them and the data directory has none."""
    if (backup / "keys").is_dir() and not (folder / "keys").exists():
        shutil.copytree(backup / "keys", folder / "keys")
        (folder / "keys").chmod(0o700)


async def restore_dump(backup: Path, found: Manifest, address: Address) -> None:
    """The contents of a database into an empty one, all of them or none."""
    if found.kind != "dump":
        raise OtherKind(found.kind, "an empty data directory: unset DATABASE_URL")
    async with connected(address) as conn:
        if await conn.fetchval(TABLES):
            raise NotEmpty(f"the database `{address}`")
        async with conn.transaction():
            await ensure_roles(conn)
            await play(backup / "bpc.dump", conn)


def _hand_over(folder: Path, account: Account) -> None:
    """Have everything in `folder` belong to the server's user, and to nobody else."""
    for where, folders, names in os.walk(folder):
        for name in (*folders, *names):
            _own(Path(where, name), account)
    _own(folder, account)


def _own(path: Path, account: Account) -> None:
    if account.switch:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    if not path.is_symlink():
        path.chmod(0o700 if path.is_dir() else 0o600)
