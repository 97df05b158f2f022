"""`bpc seed`: the same start for everybody, however often it is run."""

import stat
from base64 import b64encode

import pytest

from bpc.core.api_keys import ApiKeySecret
from tests.cli.conftest import Installation
from tests.cli.program import Program

PROD = {
    "BPC_ENV": "prod",
    "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64": b64encode(bytes(range(32))).decode(),
    "BPC_API_KEY_PEPPER_BASE64": b64encode(bytes(32)).decode(),
}


def test_running_it_again_changes_nothing_and_prints_the_same_key(installation: Installation) -> None:
    again = installation.bpc.run_ok("seed", "--no-rules")

    assert again.out == f"tenant   dev ({installation.tenant_id})\nAPI key  {installation.api_key}\n"


def test_the_key_is_one_and_is_kept_where_only_its_owner_can_read_it(installation: Installation) -> None:
    key_file = installation.bpc.data_dir / "keys" / "dev-api-key"

    assert ApiKeySecret.parse(key_file.read_text().strip()).text == installation.api_key
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(key_file.parent.stat().st_mode) == 0o700


def test_a_revoked_key_is_replaced(installation: Installation, bpc: Program) -> None:
    # Keys and pepper from the environment: nothing else makes the folder the API key is kept in.
    secrets = {name: PROD[name] for name in PROD if name.endswith("BASE64")}
    elsewhere = bpc.with_settings(
        DATABASE_URL=str(installation.server.address("bpc")), BPC_SIGNING_KEY_ID="elsewhere", **secrets
    )
    first = elsewhere.run_ok("seed", "--no-rules", "--json").json()

    elsewhere.run_ok("apikey", "revoke", ApiKeySecret.parse(first["api_key"]).prefix, "--tenant", "dev")
    second = elsewhere.run_ok("seed", "--no-rules", "--json").json()

    try:
        assert first["tenant_id"] == second["tenant_id"] == installation.tenant_id
        assert ApiKeySecret.parse(second["api_key"]).prefix != ApiKeySecret.parse(first["api_key"]).prefix
        assert (bpc.data_dir / "keys" / "dev-api-key").read_text() == second["api_key"] + "\n"
    finally:
        # Its pepper is nobody else's: for whoever uses this database after us it would be a key that opens nothing.
        elsewhere.run_ok("apikey", "revoke", ApiKeySecret.parse(second["api_key"]).prefix, "--tenant", "dev")


def test_prod_gets_its_signing_key_registered_and_no_tenant(bpc_without_tables: Program) -> None:
    prod = bpc_without_tables.with_settings(**PROD)
    prod.run_ok("migrate")

    seeded = prod.run_ok("seed", "--no-rules")

    assert "signing key is registered" in seeded.out
    assert [tenant["slug"] for tenant in prod.run_ok("tenant", "list", "--json").json()] == ["system"]
    assert list(bpc_without_tables.data_dir.iterdir()) == []


def test_a_key_that_is_registered_and_gone_is_not_made_anew(installation: Installation, bpc: Program) -> None:
    elsewhere = bpc.with_settings(DATABASE_URL=str(installation.server.address("bpc")))

    refused, diagnosis = elsewhere.run("seed"), elsewhere.run("doctor")

    says = "`dev-key-1` is registered, but its private key is missing"
    assert (refused.code, says in refused.err) == (78, True)
    assert (diagnosis.code, says in diagnosis.out) == (1, True)
    assert not (bpc.data_dir / "keys").exists()


def test_another_key_under_a_registered_name_is_refused(installation: Installation) -> None:
    other = installation.bpc.with_settings(
        BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64=PROD["BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64"]
    )

    ended = other.run("seed")

    assert (ended.code, ended.out) == (78, "")
    assert ended.err.startswith("SIGNING_KEY_MISSING: ")
    assert "BPC_SIGNING_KEY_ID" in ended.err


def test_a_deactivated_tenant_gets_no_key_that_would_open_nothing(bpc_without_tables: Program) -> None:
    bpc_without_tables.run_ok("migrate")
    bpc_without_tables.run_ok("seed", "--no-rules")
    bpc_without_tables.run_ok("tenant", "deactivate", "dev")

    seeded, output = (
        bpc_without_tables.run_ok("seed", "--no-rules", "--json").json(),
        bpc_without_tables.run_ok("seed", "--no-rules").out,
    )

    assert seeded["api_key"] is None
    assert "bpc tenants reactivate dev" in output


@pytest.mark.long
def test_five_at_once_make_one_key(bpc_without_tables: Program) -> None:
    bpc_without_tables.run_ok("migrate")

    started = [bpc_without_tables.start("seed", "--no-rules", "--json") for _ in range(5)]
    printed = {process.communicate()[0] for process in started}

    assert len(printed) == 1
    assert len(bpc_without_tables.run_ok("apikey", "list", "--tenant", "dev", "--json").json()) == 1
