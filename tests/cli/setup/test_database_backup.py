"""`bpc backup` and `bpc restore`: what comes back is what was there, and a damaged backup does not come back at all."""

from pathlib import Path

import pytest

from bpc.db import embedded
from tests.cli.conftest import Installation
from tests.cli.program import Program


def superuser(installation: Installation, name: str) -> dict[str, str]:
    return {"DATABASE_URL": str(installation.server.superuser_address(name))}


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def flipped(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])


def test_a_passport_survives_the_loss_of_the_machine(bpc: Program, backups: Path, tmp_path: Path) -> None:
    with embedded.use(bpc.data_dir):  # held, so that not every command starts it anew
        bpc.ok("demo", "--out", tmp_path)
        made = bpc.ok("backup", "--to", backups, "--with-keys", "--json").json()
    elsewhere = Program(tmp_path / "elsewhere")

    drilled = elsewhere.ok("restore", "--drill", backups, "--json").json()
    restored = elsewhere.ok("restore", made["backup"], "--json").json()

    assert (bpc.data_dir / "last-backup").read_text() == f"{made['taken_at']}\n"  # which monitoring shows the age of
    assert (drilled["ok"], drilled["replayed"], drilled["faults"]) == (True, 1, 0)
    assert (restored["ok"], restored["replayed"], restored["migrations"]) == (True, 1, [])
    assert restored["events"] == drilled["events"] > 20
    assert elsewhere.ok("audit", "verify", "--json").json()["ok"]
    kept = (elsewhere.data_dir / "keys" / "signing.key").read_bytes()
    assert kept == (bpc.data_dir / "keys" / "signing.key").read_bytes()
    again = elsewhere.run("restore", made["backup"])
    assert again.code == 1
    assert "is not empty, and a backup is never put over what is there" in again.err
    flipped(Path(made["backup"]) / "base" / "PG_VERSION")
    damaged = elsewhere.run("restore", "--drill", made["backup"])
    assert damaged.code == 1
    assert "`base/PG_VERSION` was changed" in damaged.err


def test_another_server_is_dumped_and_restored(installation: Installation, bpc: Program, backups: Path) -> None:
    for name in ("dumped", "restored"):
        installation.execute(f"CREATE DATABASE {name} OWNER bpc_owner", database="postgres")
    source, empty = bpc.having(**superuser(installation, "dumped")), bpc.having(**superuser(installation, "restored"))
    source.ok("migrate")
    source.having(BPC_SIGNING_KEY_ID="of-the-dump").ok("seed")

    made = source.ok("backup", "--to", backups, "--json").json()
    restored = empty.ok("restore", made["backup"], "--json").json()
    drilled = bpc.ok("restore", "--drill", made["backup"], "--json").json()

    assert made["kind"] == "dump"
    assert (drilled["ok"], drilled["events"]) == (True, restored["events"])
    assert restored["ok"]
    assert restored["events"] > 0
    assert "dev" in [tenant["slug"] for tenant in empty.ok("tenant", "list", "--json").json()]
    refused = empty.run("restore", made["backup"])
    assert (refused.code, "is not empty" in refused.err) == (1, True)


def test_a_login_that_may_not_see_everything_does_not_write_down_half(
    installation: Installation, bpc: Program, backups: Path
) -> None:
    refused = bpc.having(DATABASE_URL=str(installation.server.address("bpc"))).run("backup", "--to", backups)

    assert refused.code == 69
    assert "use a login that is a superuser or has BYPASSRLS" in refused.err
    assert list(backups.iterdir()) == []


def test_where_nothing_is_there_is_nothing_to_back_up(bpc: Program, backups: Path) -> None:
    refused = bpc.run("backup", "--to", backups)

    assert (refused.code, refused.err.split(":")[0]) == (1, "NOT_FOUND")
    assert list(bpc.data_dir.iterdir()) == []
