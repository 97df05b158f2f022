"""Loading: the environment wins over `.env`, every gap is named at once, no value is repeated."""

import logging
import os
import traceback
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.runtime.settings import ConfigMissing, SettingProblem, load_settings
from bpc.runtime.settings.model import VARIABLES
from tests.measurements import choose_examples
from tests.runtime.settings.values import NOWHERE, PROD, list_wrong_names, load_from, load_refused

repeatable = settings(derandomize=True, max_examples=choose_examples(100))
LEASE = "`BPC_JOBS_LEASE_RENEW_SECONDS` must be below `BPC_JOBS_LEASE_SECONDS`, otherwise running jobs lose their lease"


def write_dotenv(folder: Path, text: str) -> Path:
    (folder / ".env").write_text(text, encoding="utf-8")
    return folder


def test_all_problems_are_reported_together() -> None:
    problem = load_refused(
        {
            "BPC_ENV": "prod",
            "BPC_HTTP_PORT": "http",
            "BPC_METRICS_ENABLED": "maybe",
            "BPC_JOBS_LEASE_SECONDS": "20",
            "BPC_COMPILER_BUILD_ID": "UNKNOWN",
        }
    )

    assert [(p.name, p.sentence) for p in problem.problems] == [
        ("BPC_HTTP_PORT", "`BPC_HTTP_PORT` must be a whole number from 0 to 65535"),
        ("BPC_METRICS_ENABLED", "`BPC_METRICS_ENABLED` must be `true` or `false`"),
        (
            "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64",
            "`BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64` is missing: prod does not generate one",
        ),
        (
            "BPC_API_KEY_PEPPER_BASE64",
            "`BPC_API_KEY_PEPPER_BASE64` is missing: prod does not generate one",
        ),
        ("BPC_DB_PASSWORD", "`BPC_DB_PASSWORD` is missing: prod needs it, or `DATABASE_URL`"),
        (
            "BPC_COMPILER_BUILD_ID",
            "`BPC_COMPILER_BUILD_ID` is missing: receipts in prod name the build",
        ),
        ("BPC_JOBS_LEASE_RENEW_SECONDS", LEASE),
    ]


def test_the_error_carries_what_every_refusal_carries() -> None:
    problem = load_refused({"BPC_HTTP_PORT": "x", "BPC_DB_PORT": "y"})

    assert problem.code == "CONFIG_MISSING"
    assert problem.retryable is False
    assert str(problem) == problem.says
    assert problem.says == (
        "2 settings are missing or wrong: `BPC_HTTP_PORT` must be a whole number from 0 to 65535; "
        "`BPC_DB_PORT` must be a whole number from 1 to 65535"
    )
    assert problem.fix == (
        "set them in the environment or in `.env`; docs/configuration.md lists every setting with its default"
    )
    assert problem.details == {
        "problems": [
            {"name": "BPC_HTTP_PORT", "says": "`BPC_HTTP_PORT` must be a whole number from 0 to 65535"},
            {"name": "BPC_DB_PORT", "says": "`BPC_DB_PORT` must be a whole number from 1 to 65535"},
        ]
    }


def test_prod_is_not_told_to_use_a_file_it_does_not_read() -> None:
    assert ".env" not in load_refused({"BPC_ENV": "prod"}).fix


def test_a_wrong_secret_is_not_also_reported_as_missing() -> None:
    wrong = {**PROD, "BPC_API_KEY_PEPPER_BASE64": "?", "DATABASE_URL": "?", "BPC_DB_PASSWORD": ""}

    assert list_wrong_names(wrong) == ["DATABASE_URL", "BPC_API_KEY_PEPPER_BASE64"]


def test_a_number_is_not_compared_with_an_invalid_one() -> None:
    wrong = {"BPC_JOBS_LEASE_SECONDS": "ninety", "BPC_JOBS_LEASE_RENEW_SECONDS": "80"}

    assert list_wrong_names(wrong) == ["BPC_JOBS_LEASE_SECONDS"]


def test_dotenv_fills_in_what_the_environment_leaves_open(tmp_path: Path) -> None:
    cwd = write_dotenv(
        tmp_path, "# ours\nBPC_HTTP_PORT=9000\nexport BPC_DB_NAME='mine'\nBPC_LOG_LEVEL=debug\nOTHER=1\n"
    )

    settings = load_from({"BPC_LOG_LEVEL": "warn"}, cwd)

    assert (settings.http_port, settings.db_name, settings.log_level) == (9000, "mine", "warn")
    assert "BPC_HTTP_PORT" not in os.environ


def test_an_empty_value_counts_as_not_set(tmp_path: Path) -> None:
    cwd = write_dotenv(tmp_path, "BPC_HTTP_PORT=9000\nBPC_DB_NAME=\nBPC_LOG_LEVEL\n")

    settings = load_from({"BPC_HTTP_PORT": "", "BPC_ENV": " "}, cwd)

    assert (settings.http_port, settings.db_name, settings.env) == (9000, "bpc", "dev")


@pytest.mark.parametrize(("env", "port"), [("dev", 9000), ("test", 9000), ("prod", 8080)])
def test_dotenv_is_read_in_dev_and_test_only(tmp_path: Path, env: str, port: int) -> None:
    cwd = write_dotenv(tmp_path, "BPC_HTTP_PORT=9000\n")

    assert load_from({**PROD, "BPC_ENV": env}, cwd).http_port == port


def test_prod_cannot_be_chosen_in_a_file_that_prod_does_not_read(tmp_path: Path) -> None:
    problem = load_refused({}, write_dotenv(tmp_path, "BPC_ENV=prod\n"))

    assert problem.problems[0] == SettingProblem(
        name="BPC_ENV",
        sentence="`BPC_ENV` cannot be `prod` in `.env`, which is not read in prod: set it in the environment",
    )


def test_a_dotenv_that_is_no_text_is_a_problem_like_any_other(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"BPC_DB_NAME=\xff\xfe\n")

    assert list_wrong_names({"BPC_HTTP_PORT": "x"}, tmp_path) == [".env", "BPC_HTTP_PORT"]


def test_white_space_around_a_value_is_dropped_but_a_password_keeps_its_blanks() -> None:
    settings = load_from({"BPC_HTTP_PORT": " 9000\n", "BPC_DB_PASSWORD": " pw \n"})

    assert settings.http_port == 9000
    assert settings.db_password.get_secret_value() == " pw "


def test_paths_start_at_the_current_folder_or_at_home(tmp_path: Path) -> None:
    settings = load_from({"BPC_DATA_DIR": ".data", "BPC_SIGNING_KEYS_DIR": "~/keys"}, tmp_path)

    assert settings.data_dir == tmp_path / ".data"
    assert settings.signing_keys_dir == Path("/home/ada/keys")


def test_a_user_without_a_home_is_asked_for_a_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 3_999_999)  # in no list of users

    with pytest.raises(ConfigMissing) as raised:
        load_settings({"BPC_HTTP_PORT": "x"}, cwd=NOWHERE)

    assert [problem.name for problem in raised.value.problems] == ["BPC_DATA_DIR", "BPC_HTTP_PORT"]


def test_a_misspelt_name_is_a_warning_with_the_nearest_name(tmp_path: Path) -> None:
    cwd = write_dotenv(tmp_path, "BPC_LOGLEVEL=debug\n")

    assert load_from({"BPC_DB_HOTS": "db", "BPC_COLOUR": "red", "BPC_HTPP_PORT": "1"}, cwd).warnings == (
        "`BPC_COLOUR` is not a setting and is ignored",
        "`BPC_DB_HOTS` is not a setting and is ignored; did you mean `BPC_DB_HOST`?",
        "`BPC_HTPP_PORT` is not a setting and is ignored; did you mean `BPC_HTTP_PORT`?",
        "`BPC_LOGLEVEL` is not a setting and is ignored; did you mean `BPC_LOG_LEVEL`?",
    )


def test_names_that_are_not_ours_to_judge_are_left_alone() -> None:
    others = {
        "BPC_URL": "http://127.0.0.1:8080",
        "BPC_API_KEY": "bpc_",
        "BPC_EFFORT": "shown",
        "BPC_TEST_AMQP_URL": "amqp://localhost",
        "BPC_API_SERVICE_HOST": "10.0.0.1",
        "BPC_API_SERVICE_PORT_HTTP": "80",
        "BPC_API_PORT": "tcp://10.0.0.1:80",
        "BPC_API_PORT_80_TCP_ADDR": "10.0.0.1",
    }

    assert load_from(others).warnings == ()


def test_a_port_that_kubernetes_has_taken_says_so() -> None:
    assert load_refused({"BPC_DB_PORT": "tcp://10.0.0.1:5432"}).says == (
        "`BPC_DB_PORT` must be a whole number from 1 to 65535; Kubernetes set it: use `enableServiceLinks: false`"
    )


def test_parts_of_a_database_address_that_nothing_uses_are_a_warning() -> None:
    assert load_from({"BPC_DB_USER": "me", "BPC_DB_PORT": "6000", "BPC_DB_NAME": "x"}).warnings == (
        "`BPC_DB_PORT`, `BPC_DB_USER` ignored: without `BPC_DB_HOST` the embedded PostgreSQL is used",
    )
    assert load_from({"BPC_DB_HOST": "db", "BPC_DB_USER": "me"}).warnings == ()
    assert load_from({"BPC_DB_HOST": "db", "DATABASE_URL": "postgres://me@db/bpc"}).warnings == (
        "`BPC_DB_HOST` ignored: `DATABASE_URL` is set",
    )


# Long enough that it does not occur in our own words by accident.
CANARIES = st.text("abcdefghijklmnopqrstuvwxyz0123456789/+=:@%.-_ ", min_size=8, max_size=60).map(
    lambda t: f"Zq7{t}Zq7"
)


@repeatable
@given(canary=CANARIES, names=st.sets(st.sampled_from(sorted(VARIABLES)), min_size=1, max_size=6))
def test_a_wrong_value_never_occurs_in_the_error_whatever_it_was_set_for(canary: str, names: set[str]) -> None:
    problem = load_refused_or_none({"BPC_ENV": "prod", **dict.fromkeys(names, canary)})

    texts = [str(problem), repr(problem), *traceback.format_exception(problem)] if problem else []
    details = [problem.fix, str(problem.details), str(problem.problems)] if problem else []
    assert "Zq7" not in "".join(texts + details)
    assert problem is None or problem.__context__ is None


def load_refused_or_none(environ: dict[str, str]) -> ConfigMissing | None:
    try:
        load_from(environ)
    except ConfigMissing as problem:
        return problem
    return None


@repeatable
@given(canary=st.binary(min_size=32, max_size=32), password=st.text("abcXYZ123", min_size=8))
def test_a_right_secret_never_occurs_in_what_is_printed_of_settings(canary: bytes, password: str) -> None:
    encoded = b64encode(canary).decode()
    secret = f"Zq7{password}"

    settings = load_from(
        {
            "DATABASE_URL": f"postgres://me:{secret}@db/bpc",
            "BPC_DB_PASSWORD": secret,
            "BPC_QUEUE_URL": f"amqp://me:{secret}@mq/",
            "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64": encoded,
            "BPC_API_KEY_PEPPER_BASE64": encoded,
        }
    )

    texts = f"{settings!r}{settings}{settings.model_dump()}{settings.model_dump_json()}"
    texts += f"{settings.database_dsn}{settings.warnings}"
    assert secret not in texts
    assert encoded not in texts


def test_loading_logs_nothing(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.DEBUG):
        load_from(PROD, write_dotenv(tmp_path, "BPC_DB_NAME=x\n"))

    assert caplog.text == ""
