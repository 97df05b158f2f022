"""`bpc backup` and `bpc restore`: what comes back is what was there, and a damaged backup does not come back at all."""

from pathlib import Path

import pytest

from bpc.runtime import postgres
from tests.cli.conftest import Installation
from tests.cli.program import Program


def superuser_address(installation: Installation, name: str) -> dict[str, str]:
    return {"DATABASE_URL": str(installation.server.superuser_address(name))}


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def flip_byte(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])


def test_a_passport_survives_the_loss_of_the_machine(bpc: Program, backups: Path, tmp_path: Path) -> None:
    with postgres.use_server(bpc.data_dir):  # held, so that not every command starts it anew
        bpc.run_ok("demo", "--out", tmp_path)
        on_buckets = bpc.with_settings(BPC_PACK_STORE="s3://passports/packs", BPC_TLOG_STORE="s3://passports/log")
        backup = on_buckets.run_ok("backup", "--to", backups, "--with-keys", "--json").json()
    elsewhere = Program(tmp_path / "elsewhere")

    drilled = elsewhere.run_ok("restore", "--drill", backups, "--json").json()
    restored = elsewhere.run_ok("restore", backup["backup"], "--json").json()

    assert (bpc.data_dir / "last-backup").read_text() == f"{backup['taken_at']}\n"  # which monitoring shows the age of
    assert [entry["where"] for entry in backup["not_in_backup"]] == ["s3://passports/packs", "s3://passports/log"]
    assert (drilled["ok"], drilled["replayed"], drilled["faults"]) == (True, 1, 0)
    assert (restored["ok"], restored["replayed"], restored["migrations"]) == (True, 1, [])
    assert restored["events"] == drilled["events"] > 20
    assert elsewhere.run_ok("audit", "verify", "--json").json()["ok"]
    signing_key = (elsewhere.data_dir / "keys" / "signing.key").read_bytes()
    assert signing_key == (bpc.data_dir / "keys" / "signing.key").read_bytes()
    again = elsewhere.run("restore", backup["backup"])
    assert again.code == 1
    assert "is not empty; a backup is only restored into an empty place" in again.err
    flip_byte(Path(backup["backup"]) / "base" / "PG_VERSION")
    damaged = elsewhere.run("restore", "--drill", backup["backup"])
    assert damaged.code == 1
    assert "`base/PG_VERSION` was changed" in damaged.err


@pytest.mark.long
def test_another_server_is_dumped_and_restored(installation: Installation, bpc: Program, backups: Path) -> None:
    for name in ("dumped", "restored"):
        installation.execute(f"CREATE DATABASE {name} OWNER bpc_owner", database="postgres")
    source, empty = (
        bpc.with_settings(**superuser_address(installation, "dumped")),
        bpc.with_settings(**superuser_address(installation, "restored")),
    )
    source.run_ok("migrate")
    source.with_settings(BPC_SIGNING_KEY_ID="of-the-dump").run_ok("seed", "--no-rules")

    backup = source.run_ok("backup", "--to", backups, "--json").json()
    restored = empty.run_ok("restore", backup["backup"], "--json").json()
    drilled = bpc.run_ok("restore", "--drill", backup["backup"], "--json").json()

    assert backup["kind"] == "dump"
    assert (drilled["ok"], drilled["events"]) == (True, restored["events"])
    assert restored["ok"]
    assert restored["events"] > 0
    assert "dev" in [tenant["slug"] for tenant in empty.run_ok("tenant", "list", "--json").json()]
    refused = empty.run("restore", backup["backup"])
    assert (refused.code, "is not empty" in refused.err) == (1, True)


def test_a_login_that_may_not_see_everything_does_not_write_down_half(
    installation: Installation, bpc: Program, backups: Path
) -> None:
    refused = bpc.with_settings(DATABASE_URL=str(installation.server.address("bpc"))).run("backup", "--to", backups)

    assert refused.code == 69
    assert "use a login that is a superuser or has BYPASSRLS" in refused.err
    assert list(backups.iterdir()) == []


def test_where_nothing_is_there_is_nothing_to_back_up(bpc: Program, backups: Path) -> None:
    refused = bpc.run("backup", "--to", backups)

    assert (refused.code, refused.err.split(":")[0]) == (1, "NOT_FOUND")
    assert list(bpc.data_dir.iterdir()) == []
