"""Settings and the database at the start of a command: what is wrong is said at once, in full, without secrets."""

import pytest

from tests.cli.program import Program

SECRET = "hunter2-hunter2"


def test_all_wrong_settings_are_named_at_once(bpc: Program) -> None:
    wrong = bpc.with_settings(BPC_HTTP_PORT=SECRET, BPC_LOG_LEVEL=SECRET, BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64=SECRET)

    ended = wrong.run("keys", "list")

    assert (ended.code, ended.out) == (78, "")
    assert ended.err.startswith("CONFIG_MISSING: 3 settings are missing or wrong: ")
    assert all(name in ended.err for name in wrong.settings)
    assert SECRET not in ended.err
    assert "docs/configuration.md" in ended.err


def test_a_program_gets_the_wrong_settings_as_a_list(bpc: Program) -> None:
    ended = bpc.with_settings(BPC_ENV="prod").run("keys", "list", "--json")

    error = ended.json()["error"]
    assert (ended.code, ended.err) == (78, "")
    assert error["code"] == "CONFIG_MISSING"
    assert [problem["name"] for problem in error["details"]["problems"]] == [
        "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64",
        "BPC_API_KEY_PEPPER_BASE64",
        "BPC_DB_PASSWORD",
    ]


def test_a_command_that_signs_nothing_needs_no_private_key(bpc: Program) -> None:
    ended = bpc.with_settings(BPC_ENV="prod").run("tenant", "list", "--json")

    names = [problem["name"] for problem in ended.json()["error"]["details"]["problems"]]
    assert names == ["BPC_API_KEY_PEPPER_BASE64", "BPC_DB_PASSWORD"]


@pytest.mark.parametrize("command", ["tenant list", "migrate", "seed"])
def test_a_database_that_is_not_there_is_unavailable(bpc: Program, command: str) -> None:
    away = bpc.with_settings(DATABASE_URL=f"postgresql://ada:{SECRET}@127.0.0.1:1/bpc")

    ended = away.run(*command.split())

    assert (ended.code, ended.out) == (69, "")
    assert ended.err.startswith("DB_UNAVAILABLE: PostgreSQL cannot be reached: ")
    assert "DATABASE_URL" in ended.err
    assert SECRET not in ended.err


def test_a_setting_nearly_spelt_right_is_a_warning_in_the_log(bpc: Program) -> None:
    ended = bpc.with_settings(BPC_HTTP_PROT="1").run("migrate", "--check")

    assert ended.code == 1
    assert "did you mean `BPC_HTTP_PORT`?" in ended.err
    assert '"level":"warn"' in ended.err


@pytest.mark.parametrize("command", [["tenant", "create", b"\xff\xff\xff"], ["apikey", "list", "--tenant", b"\xff"]])
def test_bytes_that_are_no_text_are_refused(bpc: Program, command: list[str | bytes]) -> None:
    ended = bpc.run(*command)

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: the slug is not UTF-8 text\n")
