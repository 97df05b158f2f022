"""`bpc apikeys`: a key is shown once, to whoever made it, and nowhere else."""

from datetime import timedelta

import pytest

from bpc.core.api_keys import ApiKeySecret
from bpc.core.formats.timestamps import parse_time
from tests.cli.conftest import Installation
from tests.cli.program import Program


@pytest.fixture(scope="session")  # as the installation is: a slug is given once
def bpc(installation: Installation) -> Program:
    installation.bpc.run_ok("tenant", "create", "keys")
    return installation.bpc


def test_a_key_is_created_with_everything_one_can_say_about_it(bpc: Program) -> None:
    options = ["--role", "Auditor", "--label", "yearly audit", "--expires-in-days", "30"]

    created = bpc.run_ok("apikey", "create", "--tenant", "keys", *options, "--json").json()
    keys = bpc.run_ok("apikey", "list", "--tenant", "keys", "--json")

    (key,) = [key for key in keys.json() if key["key_prefix"] == created["key_prefix"]]
    assert created.keys() == {"api_key", "api_key_id", "actor_id", "key_prefix"}
    assert ApiKeySecret.parse(created["api_key"]).prefix == created["key_prefix"]
    assert (key["roles"], key["label"], key["actor_id"]) == (["Auditor"], "yearly audit", created["actor_id"])
    assert parse_time(key["expires_at"]) - parse_time(key["created_at"]) >= timedelta(days=29, hours=23)
    assert created["api_key"] not in keys.out


def test_a_person_gets_the_key_alone_on_standard_output(bpc: Program) -> None:
    ended = bpc.run("apikey", "create", "--tenant", "keys", "--role", "Admin")

    assert ended.code == 0
    assert ApiKeySecret.parse(ended.out.rstrip("\n")).text + "\n" == ended.out
    assert ended.err == "save it now: it will not be shown again\n"


def test_neither_the_list_nor_the_log_ever_shows_a_key(bpc: Program) -> None:
    talking = bpc.with_settings(BPC_LOG_LEVEL="debug")

    created = talking.run("apikey", "create", "--tenant", "keys", "--role", "Admin", "--json")
    text = created.json()["api_key"]
    table = talking.run("apikey", "list", "--tenant", "keys")

    assert created.json()["key_prefix"] in table.out
    assert text not in created.err + table.out + table.err
    assert text not in (bpc.data_dir / "postgres.log").read_text()


def test_an_actor_that_exists_gets_a_second_key(bpc: Program) -> None:
    first = bpc.run_ok("apikey", "create", "--tenant", "keys", "--role", "ComplianceOfficer", "--json").json()
    second = bpc.run_ok("apikey", "create", "--tenant", "keys", "--actor", first["actor_id"], "--json").json()

    assert second["actor_id"] == first["actor_id"]
    assert second["api_key"] != first["api_key"]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ("--tenant keys --role Boss", 1, "NOT_FOUND: there is no role `Boss`\n  the tenant's roles are `Admin`, "),
        ("--tenant nobody --role Admin", 1, "NOT_FOUND: there is no tenant `nobody`\n"),
        ("--tenant keys --actor me", 1, "VALIDATION_ERROR: `me` is not an id"),
        ("--tenant keys --actor 00000000-0000-4000-8000-00000000000a", 1, "NOT_FOUND: there is no active actor"),
        ("--tenant keys", 2, "USAGE: use either --role (new client) or --actor"),
        ("--tenant keys --role Admin --expires-in-days 9999999999", 2, "USAGE: invalid value for"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(bpc: Program, options: str, code: int, says: str) -> None:
    ended = bpc.run("apikey", "create", *options.split())

    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith(says)


def test_a_key_is_revoked_once_and_for_good(bpc: Program) -> None:
    created = bpc.run_ok("apikey", "create", "--tenant", "keys", "--role", "Admin", "--json").json()

    # Whoever wants to end a key has the whole of it at hand; its secret is not repeated.
    revoked = bpc.run_ok("apikey", "revoke", created["api_key"], "--tenant", "keys", "--json")
    again = bpc.run("apikey", "revoke", created["key_prefix"], "--tenant", "keys")
    (row,) = [
        line
        for line in bpc.run_ok("apikey", "list", "--tenant", "keys").out.split("\n")
        if line.startswith(created["key_prefix"])
    ]

    assert revoked.json() == {"key_prefix": created["key_prefix"], "revoked": True}
    assert again.code == 1
    assert again.err.startswith(f"NOT_FOUND: there is no valid key with the prefix `{created['key_prefix']}`\n")
    assert row.endswith("revoked")


def test_a_mistyped_key_is_not_repeated(bpc: Program) -> None:
    created = bpc.run_ok("apikey", "create", "--tenant", "keys", "--role", "Admin", "--json").json()["api_key"]

    for mistyped in (created.replace("bpc_", "bpc__"), created.replace("bpc_", "pbc_"), f"{created}_x"):
        ended = bpc.run("apikey", "revoke", mistyped, "--tenant", "rival-that-is-not-there")
        ended_here = bpc.run("apikey", "revoke", mistyped[1:], "--tenant", "keys")
        assert created[16:] not in ended.err + ended.out + ended_here.err + ended_here.out
