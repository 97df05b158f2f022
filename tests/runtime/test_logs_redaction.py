"""Logs: no secret is ever in a line, and whatever is logged, the line can be read."""

import io
import json
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpc.runtime import logs
from tests.measurements import choose_examples
from tests.runtime.log_lines import Lines, raise_lookup_error

repeatable = settings(derandomize=True, max_examples=choose_examples(150), suppress_health_check=list(HealthCheck))
API_KEY = "bpc_4fzyo82mFQ_" + "0aB" * 16 + "Z"
PEM = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----"
log = logs.get_logger("bpc.somewhere")
pytestmark = pytest.mark.usefixtures("restore_logging")


SECRET_NAMES = [
    "password",
    "db_password",
    "PASSWD",
    "client_secret",
    "token",
    "accessToken",
    "pepper",
    "authorization",
    "Authorization",
    "api_key",
    "X-Api-Key",
    "apiKey",
    "private_key",
    "signing_key",
    "signature_key",
    "dsn",
    "database_dsn",
    "DATABASE_URL",
    "cookie",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_value_with_a_secret_name_is_hidden_wherever_it_stands(lines: Lines, name: str) -> None:
    log.info("x", **{name: "Zq7canary"})
    log.info("x", deep={"list": [{name: "Zq7canary"}, {name: ["Zq7canary"]}]})
    log.info("x", headers=[(name, "Zq7canary")], number={name: 12345678})

    assert "Zq7canary" not in lines.getvalue()
    assert "12345678" not in lines.getvalue()
    assert lines.getvalue().count("[redacted]") == 5


def test_names_that_only_sound_like_secrets_stay_readable(lines: Lines) -> None:
    log.info(
        "x", api_key_id="k-1", signing_key_id="dev-key-1", key_prefix="4fzyo82mFQ", has_password=True, password=None
    )

    line = lines.last()
    assert (line["api_key_id"], line["signing_key_id"], line["key_prefix"]) == ("k-1", "dev-key-1", "4fzyo82mFQ")
    assert (line["has_password"], line["password"]) == (True, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"key {API_KEY} is unknown", "key [redacted] is unknown"),
        ("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD failed", "[redacted] failed"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer [redacted]"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic [redacted]"),
        ("sent bearer abc123 again", "sent bearer [redacted] again"),
        (f"loaded {PEM} from disk", "loaded [redacted] from disk"),
        (f"cut {PEM[:50]}", "cut [redacted]"),
        ("to postgres://me:p@ss/w:rd@db:5432/bpc now", "to postgres://[redacted]@db:5432/bpc now"),
        ("amqp://:pw@mq/", "amqp://[redacted]@mq/"),
        ("https://token@github.example/x", "https://[redacted]@github.example/x"),
        ("user=me password=pw host=db", "user=me password=[redacted] host=db"),
        ("{'api_key': 'a b c', 'n': 1}", "{'api_key': [redacted], 'n': 1}"),
        ('{"secret": "open ended', '{"secret": [redacted]'),
        ("access_token: abc", "access_token: [redacted]"),
        ("?token=abc&n=1", "?token=[redacted]&n=1"),
    ],
)
def test_text_that_looks_secret_is_hidden(text: str, expected: str) -> None:
    assert logs.redact_text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "bpc_jobs_enqueued_total and bpc_http_request_duration_seconds",
        "role bpc_owner on database bpc",
        "unexpected token: `}`",
        "see https://example.com:8443/docs?page=2",
        "ada@example.com wrote",
        "the secret is safe, its password too",
    ],
)
def test_plain_text_is_left_alone(text: str) -> None:
    assert logs.redact_text(text) == text


CANARY = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=12, max_size=60).map(
    lambda text: f"Zq7{text}"
)


HIDING_PLACES = [
    "bpc_4fzyo82mFQ_{}",
    "whsec_{}",
    "Bearer {}",
    "postgresql://me:{}@db/bpc",
    "amqps://{}@mq",
    "password={}",
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
]


AROUND = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@repeatable
@given(canary=CANARY, place=st.sampled_from(HIDING_PLACES), before=AROUND, after=AROUND)
@pytest.mark.parametrize("as_json", [True, False])
def test_no_secret_is_ever_in_a_line(as_json: bool, canary: str, place: str, before: str, after: str) -> None:
    out = io.StringIO()
    logs.configure(level="debug", json=as_json, component="api", stream=out)
    text = f"{before} {place.format(canary)} {after}"

    log.info(text)
    log.info("x", value=text, deep=[{"a": (text, {text: 1})}], obj=Exception(text), pepper=canary)
    logging.getLogger("lib").warning("%s", text, extra={"more": {"url": text}})
    try:
        _fail_twice(text)
    except ExceptionGroup:
        log.exception("failed")

    assert canary not in out.getvalue()
    assert out.getvalue().count("\n") >= 4


def _fail_twice(text: str) -> None:
    try:
        raise_lookup_error(text)
    except LookupError as cause:
        raise ExceptionGroup(text, [ValueError(text)]) from cause


@repeatable
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
        max_leaves=10,
    )
)
def test_whatever_is_logged_the_line_is_valid_json(value: object) -> None:
    out = Lines()
    logs.configure(level="debug", json=True, component="api", stream=out)

    log.info("x", value=value)

    (line,) = out.getvalue().splitlines()
    assert "value" in json.loads(line, parse_constant=pytest.fail)


def _keep_only_our_handler() -> None:
    """Leave out the test runner's own handlers, which cannot write these values."""
    root = logging.getLogger()
    root.handlers[:] = [handler for handler in root.handlers if type(handler).__module__ == logs.__name__]


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_what_cannot_be_written_down_is_described(lines: Lines) -> None:
    circle: list[object] = []
    circle.append(circle)

    _keep_only_our_handler()
    log.info("x", broken=Unprintable(), circle=circle, huge=10**5000, kinds={1, 2}, long="y" * 100_000)

    line = lines.last()
    assert line["broken"] == "<Unprintable that cannot be printed>"
    assert line["huge"] == "<int that cannot be printed>"
    assert sorted(line["kinds"]) == [1, 2]
    assert line["long"].endswith("… (67232 more)")


class FailingDict(dict[str, object]):
    def items(self) -> Any:
        raise RuntimeError("password=Zq7canary")


def test_a_line_that_cannot_be_made_is_reported_without_its_content(
    lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    log.info("Zq7canary", value=FailingDict())

    assert lines.last()["msg"] == "a line of `bpc.somewhere` could not be logged"
    assert "Zq7canary" not in lines.getvalue() + capsys.readouterr().err


@pytest.mark.parametrize("unit", ["a", "://", "bpc_a_", "password", "-----BEGIN PRIVATE KEY-----", "x_token ", "://a:"])
def test_hostile_text_is_redacted_in_time_that_grows_with_its_length(unit: str) -> None:
    from time import process_time

    start = process_time()
    logs.redact_text(unit * (100_000 // len(unit)))

    assert process_time() - start < 2
