"""Each setting: its default, its bounds, and what must hold between them."""

import socket
from inspect import signature
from typing import Any, cast

import pytest
from asyncpg.connect_utils import _parse_connect_dsn_and_args  # type: ignore[attr-defined]
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from bpc import __version__
from bpc.runtime.settings import Settings
from tests.measurements import choose_examples
from tests.runtime.settings.values import NOWHERE, PROD, list_wrong_names, load_from, load_refused

BROKER = "`amqp://user:password@host:port/name`"
SIGNS = "letters, digits, `.`, `_` or `-`"
DEFAULTS = {
    "BPC_ENV": "dev",
    "BPC_HTTP_HOST": None,
    "BPC_HTTP_PORT": 8080,
    "BPC_COMPILER_BUILD_ID": f"bpc-{__version__}",
    "BPC_DB_HOST": None,
    "BPC_DB_PORT": 5432,
    "BPC_DB_USER": "postgres",
    "BPC_DB_NAME": "bpc",
    "BPC_DB_POOL_SIZE": 10,
    "BPC_DB_SSLMODE": "disable",
    "BPC_QUEUE_ENABLED": False,
    "BPC_QUEUE_EXCHANGE": "bpc",
    "BPC_QUEUE_ROUTING_KEY": "jobs.trigger",
    "BPC_JOBS_POLL_INTERVAL_MS": 1000,
    "BPC_JOBS_LEASE_SECONDS": 60,
    "BPC_JOBS_LEASE_RENEW_SECONDS": 30,
    "BPC_JOBS_MAX_ATTEMPTS_DEFAULT": 5,
    "BPC_PROOF_MAX_BYTES": 262144,
    "BPC_PAYLOAD_MAX_BYTES": 131072,
    "BPC_RECEIPT_MAX_BYTES": 16384,
    "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64": None,
    "BPC_SIGNING_KEY_ID": "dev-key-1",
    "BPC_API_KEY_PEPPER_BASE64": None,
    "BPC_RATE_LIMIT_ENABLED": False,
    "BPC_RATE_LIMIT_RPS": 50,
    "BPC_RATE_LIMIT_BURST": 100,
    "BPC_RETENTION_EVENTS_DAYS": 5475,
    "BPC_RETENTION_PASSPORT_VERSIONS_DAYS": 5475,
    "BPC_RETENTION_DOCUMENT_VERSIONS_DAYS": 3650,
    "BPC_LOG_LEVEL": "info",
    "BPC_METRICS_ENABLED": True,
    "BPC_HEALTH_REQUIRE_QUEUE": False,
    "BPC_JOBS_CONCURRENCY": 4,
    "BPC_JOBS_MEMORY_CONCURRENCY": 4,
    "BPC_JOBS_CHANNEL_CAPACITY": 256,
    "BPC_JOBS_CPU_PROCESSES": 2,
    "BPC_JOBS_CANCEL_GRACE_SECONDS": 10,
    "BPC_JOBS_STOP_GRACE_SECONDS": 30,
    "BPC_JOBS_TTL_DAYS": 14,
    "BPC_WORKER_HTTP_PORT": 8081,
    "BPC_UPLOAD_MAX_BYTES": 25000000,
    "BPC_REQUEST_TIMEOUT_SECONDS": 30,
    "BPC_RULES_MAX_STEPS": 1000000,
    "BPC_OUTBOUND_ALLOW": (),
    "BPC_WEBHOOK_TIMEOUT_SECONDS": 30,
    "BPC_WEBHOOK_RETRY_HOURS": 72,
    "BPC_WEBHOOK_RETRY_JITTER_PERCENT": 20,
    "BPC_WEBHOOK_DISABLE_AFTER_HOURS": 120,
    "BPC_SIGNING_KEYS_DIR": None,
    "BPC_IDEMPOTENCY_DAYS": 30,
    "DATABASE_URL": None,
}


def test_an_empty_environment_gives_the_documented_defaults() -> None:
    found_settings = load_from()

    actual = {name: getattr(found_settings, name.removeprefix("BPC_").lower()) for name in DEFAULTS}
    assert actual == DEFAULTS
    assert found_settings.warnings == ()


def test_the_worker_is_named_after_the_host() -> None:
    assert load_from().worker_id == socket.gethostname()
    assert load_from({"BPC_WORKER_ID": "w1"}).worker_id == "w1"


def test_whether_logs_are_json_is_left_open_unless_it_is_set() -> None:
    assert load_from().log_json is None
    assert load_from({"BPC_LOG_JSON": "true"}).log_json is True
    assert load_from({"BPC_LOG_JSON": "0"}).log_json is False


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("BPC_HTTP_PORT", 0, 65535),
        ("BPC_WORKER_HTTP_PORT", 0, 65535),
        ("BPC_DB_PORT", 1, 65535),
        ("BPC_PAYLOAD_MAX_BYTES", 1, 5_000_000),
        ("BPC_PROOF_MAX_BYTES", 1, 20_000_000),
        ("BPC_RECEIPT_MAX_BYTES", 1, 500_000),
        ("BPC_RULES_MAX_STEPS", 1, 1_000_000),
        ("BPC_JOBS_MAX_ATTEMPTS_DEFAULT", 1, 100),
        ("BPC_RETENTION_EVENTS_DAYS", 1, 36500),
    ],
)
def test_a_number_stays_within_its_bounds(name: str, least: int, most: int) -> None:
    load_from({name: str(least)})
    load_from({name: str(most)})

    sentence = f"`{name}` must be a whole number from {least} to {most}"
    for wrong in (str(least - 1), str(most + 1), "many", "1.5", "1e3", "0x10"):
        assert load_refused({name: wrong}).says == sentence


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "soon"])
def test_a_duration_is_a_real_number_of_seconds(value: str) -> None:
    assert list_wrong_names({"BPC_JOBS_STOP_GRACE_SECONDS": value}) == ["BPC_JOBS_STOP_GRACE_SECONDS"]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("BPC_ENV", "production", "`BPC_ENV` must be `dev`, `test` or `prod`"),
        ("BPC_LOG_LEVEL", "loud", "`BPC_LOG_LEVEL` must be `debug`, `info`, `warn` or `error`"),
        ("BPC_METRICS_ENABLED", "perhaps", "`BPC_METRICS_ENABLED` must be `true` or `false`"),
        ("BPC_DB_SSLMODE", "prefer", "`BPC_DB_SSLMODE` must be `disable` or `require`"),
        ("BPC_DB_NAME", "x" * 64, "`BPC_DB_NAME` must be a text of 1 to 63 characters"),
        (
            "BPC_DB_HOST",
            "postgres://me:me@db",
            "`BPC_DB_HOST` must be a host name or an address, without scheme, user or port",
        ),
        (
            "BPC_WORKER_ID",
            "a:b",
            f"`BPC_WORKER_ID` must be at most 100 {SIGNS}",
        ),
        (
            "BPC_SIGNING_KEY_ID",
            "../key",
            f"`BPC_SIGNING_KEY_ID` must be at most 64 {SIGNS}, and must start with a letter or digit",
        ),
        (
            "BPC_COMPILER_BUILD_ID",
            "two words",
            "`BPC_COMPILER_BUILD_ID` must be at most 128 visible ASCII characters",
        ),
        (
            "BPC_OUTBOUND_ALLOW",
            "10.0.0.0/8,https://a.example",
            "`BPC_OUTBOUND_ALLOW` must list hosts, addresses, networks or absolute folders",
        ),
        (
            "BPC_QUEUE_URL",
            "http://localhost",
            f"`BPC_QUEUE_URL` must be a URL like {BROKER}, special characters percent-encoded",
        ),
    ],
)
def test_a_wrong_value_is_reported_by_what_it_should_be(name: str, value: str, says: str) -> None:
    assert load_refused({name: value}).says == says


@pytest.mark.parametrize(
    "url",
    [
        "db",
        "mysql://me:pw@db/bpc",
        "postgresql+asyncpg://me:pw@db/bpc",
        "postgresql:me",
        "postgres://me:pw@db:port/bpc",
        "postgres://me:pw@db:0/bpc",
        "postgres://me:pw@[::1/bpc",
        "postgres://me:p w@db/bpc",
        "host=db user=me password=pw",
    ],
)
def test_a_database_url_is_one_that_the_driver_can_use(url: str) -> None:
    expected = "a URL like `postgresql://user:password@host:port/name`, special characters percent-encoded"

    assert load_refused({"DATABASE_URL": url}).says == f"`DATABASE_URL` must be {expected}"


def test_destinations_are_hosts_addresses_networks_and_folders() -> None:
    text = "10.0.0.0/8, 192.168.1.7,fd00::/8 ,erp.internal:8443,*.lan,/srv/drop box"

    assert load_from({"BPC_OUTBOUND_ALLOW": text}).outbound_allow == (
        "10.0.0.0/8",
        "192.168.1.7",
        "fd00::/8",
        "erp.internal:8443",
        "*.lan",
        "/srv/drop box",
    )


def test_a_lease_is_renewed_before_it_ends() -> None:
    problem = load_refused({"BPC_JOBS_LEASE_SECONDS": "20"})

    assert problem.says == (
        "`BPC_JOBS_LEASE_RENEW_SECONDS` must be below `BPC_JOBS_LEASE_SECONDS`, otherwise running jobs lose their lease"
    )
    short = {"BPC_JOBS_LEASE_SECONDS": "1", "BPC_JOBS_LEASE_RENEW_SECONDS": "0.4"}
    assert load_from(short).jobs_lease_renew_seconds == 0.4


def test_the_log_is_in_a_folder_or_in_a_bucket() -> None:
    problem = load_refused({"BPC_TLOG_DIR": "/srv/log", "BPC_TLOG_STORE": "s3://passports/log"})

    assert problem.says == (
        "`BPC_TLOG_STORE` must not be set beside `BPC_TLOG_DIR`: the log is in a bucket or in a folder"
    )
    assert load_from({"BPC_TLOG_STORE": "s3://passports/log"}).tlog_store == "s3://passports/log"


def test_prod_names_every_secret_it_needs() -> None:
    assert list_wrong_names({"BPC_ENV": "prod"}) == [
        "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64",
        "BPC_API_KEY_PEPPER_BASE64",
        "BPC_DB_PASSWORD",
    ]
    assert load_from(PROD).env == "prod"


def test_prod_takes_a_database_url_instead_of_a_password() -> None:
    without = {name: value for name, value in PROD.items() if not name.startswith("BPC_DB_")}

    assert list_wrong_names(without) == ["BPC_DB_PASSWORD"]
    load_from({**without, "DATABASE_URL": "postgres://me:pw@db/bpc"})


@pytest.mark.parametrize("build", ["", " ", "UNKNOWN", "unknown"])
def test_prod_refuses_a_build_without_a_name(build: str) -> None:
    assert list_wrong_names({**PROD, "BPC_COMPILER_BUILD_ID": build}) == ["BPC_COMPILER_BUILD_ID"]
    assert load_from({"BPC_COMPILER_BUILD_ID": build}).compiler_build_id in {f"bpc-{__version__}", build}


def test_settings_cannot_be_changed_and_cannot_be_built_wrong() -> None:
    frozen = Settings(data_dir=NOWHERE)

    with pytest.raises(ValidationError):
        frozen.env = "prod"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="BPC_API_KEY_PEPPER_BASE64"):
        Settings(data_dir=NOWHERE, env="prod")


def test_the_embedded_database_is_used_unless_another_is_named() -> None:
    assert load_from().database_dsn is None
    assert load_from({"BPC_DB_USER": "me", "BPC_DB_PASSWORD": "pw"}).database_dsn is None


def test_a_database_url_wins_over_the_parts() -> None:
    both = {"DATABASE_URL": "postgres://me:pw@one/bpc", "BPC_DB_HOST": "two"}

    dsn = load_from(both).database_dsn

    assert dsn is not None
    assert dsn.get_secret_value() == "postgres://me:pw@one/bpc"


repeatable = settings(derandomize=True, max_examples=choose_examples(100))
TEXTS = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=["Cs", "Cc"]),
    min_size=1,
    max_size=20,
)


@repeatable
@given(
    user=TEXTS,
    password=TEXTS,
    name=TEXTS,
    host=st.sampled_from(["db.example", "10.0.0.7", "::1", "/run/pg_sock"]),
)
def test_whatever_the_parts_contain_the_driver_gets_them_back(user: str, password: str, name: str, host: str) -> None:
    parts = {"db_user": user, "db_password": password, "db_name": name, "db_host": host, "db_port": 6000}

    dsn = Settings.model_validate({"data_dir": NOWHERE, **parts}).database_dsn

    assert dsn is not None
    addresses, parameters = _parse_with_driver(dsn.get_secret_value())
    assert addresses == [f"{host}/.s.PGSQL.6000" if host.startswith("/") else (host, 6000)]
    assert (parameters.user, parameters.password, parameters.database) == (user, password, name)
    assert not parameters.ssl


def _parse_with_driver(dsn: str) -> tuple[Any, Any]:
    """What asyncpg makes of a URL, with every other argument left out."""
    other_arguments = {name: None for name in signature(_parse_connect_dsn_and_args).parameters if name != "dsn"}
    return cast("tuple[Any, Any]", _parse_connect_dsn_and_args(dsn=dsn, **other_arguments))
