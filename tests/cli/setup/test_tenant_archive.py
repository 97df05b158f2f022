"""`bpc tenants export` and `import`: a tenant goes to another installation, whole or not at all."""

from pathlib import Path

from tests.cli.conftest import Installation
from tests.cli.program import Program


def test_a_tenant_is_taken_in_elsewhere_and_only_as_it_was_exported(
    installation: Installation, bpc: Program, tmp_path: Path
) -> None:
    archive, name = tmp_path / "archive", "took_in_a_tenant"
    installation.execute(f"CREATE DATABASE {name} OWNER bpc_owner", database="postgres")
    address = str(installation.server.superuser_address(name))
    elsewhere = bpc.with_settings(DATABASE_URL=address, BPC_SIGNING_KEY_ID="of-the-back-up")
    installation.bpc.run_ok("tenant", "create", "leaving")
    elsewhere.run_ok("migrate")

    exported = installation.bpc.run_ok("tenant", "export", "leaving", "--to", archive, "--json").json()
    imported = elsewhere.run_ok("tenant", "import", archive)

    assert (
        imported.out.split("\n")[0]
        == f"leaving: {exported['rows']:,} rows; its public pages are served, and nothing else"
    )
    assert imported.out.endswith("events: intact\n")
    tenants = {tenant["slug"]: tenant["is_active"] for tenant in elsewhere.run_ok("tenant", "list", "--json").json()}
    assert tenants["leaving"] is False
    assert "leaving: " in elsewhere.run_ok("audit", "verify").out

    refused = {
        "again": elsewhere.run("tenant", "import", archive),
        "same folder": installation.bpc.run("tenant", "export", "leaving", "--to", archive),
        "restore": elsewhere.run("restore", archive),
    }
    (archive / "tables" / "actors.jsonl").write_text("{}\n")
    refused["changed"] = elsewhere.run("tenant", "import", archive)

    assert {name: result.code for name, result in refused.items()} == dict.fromkeys(refused, 1)
    assert "there is a tenant `leaving` in this installation" in refused["again"].err
    assert "use `bpc tenants import`" in refused["restore"].err
    assert "`tables/actors.jsonl` was changed" in refused["changed"].err


def test_a_tenant_is_followed_by_another_installation(installation: Installation, bpc: Program, tmp_path: Path) -> None:
    replica, name = tmp_path / "replica", "follows_a_tenant"
    installation.execute(f"CREATE DATABASE {name} OWNER bpc_owner", database="postgres")
    address = str(installation.server.superuser_address(name))
    data_dir = tmp_path / "follower"
    elsewhere = bpc.with_settings(DATABASE_URL=address, BPC_SIGNING_KEY_ID="of-the-back-up", BPC_DATA_DIR=str(data_dir))
    installation.bpc.run_ok("tenant", "create", "led")
    elsewhere.run_ok("migrate")
    missing = elsewhere.run("tenant", "follow", replica)

    first = installation.bpc.run_ok("tenant", "replicate", "led", "--to", replica, "--json").json()
    elsewhere.run_ok("tenant", "follow", replica)
    assert installation.bpc.run("apikey", "create", "--tenant", "led", "--role", "Auditor").code == 0
    second = installation.bpc.run_ok("tenant", "replicate", "led", "--to", replica).out
    followed = elsewhere.run_ok("tenant", "follow", replica, "--json").json()

    assert (missing.code, f"`{replica}` has no replica" in missing.err) == (1, True)
    assert (first["number"], second.split(":")[0]) == (0, "000001")
    assert (followed["number"], followed["parts"], followed["rows"] > 0) == (1, 1, True)
    tenants = {tenant["slug"]: tenant["is_active"] for tenant in elsewhere.run_ok("tenant", "list", "--json").json()}
    assert tenants["led"] is False
