"""Logs: the shape of a line, where lines come from, and that no secret is ever in one."""

import asyncio
import datetime as dt
import io
import json
import logging
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpc import logs

repeatable = settings(derandomize=True, max_examples=150, suppress_health_check=list(HealthCheck))
API_KEY = "bpc_4fzyo82mFQ_" + "0aB" * 16 + "Z"
PEM = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Lines(io.StringIO):
    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().split("\n") if line]

    def last(self) -> dict[str, Any]:
        return self.all()[-1]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Logging belongs to the process: put back what a test changed."""
    root, configured = logging.getLogger(), structlog.get_config()
    handlers, level, hook, thread_hook = root.handlers[:], root.level, sys.excepthook, threading.excepthook
    yield
    root.handlers[:], sys.excepthook, threading.excepthook = handlers, hook, thread_hook
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.configure(**configured)


@pytest.fixture
def lines() -> Lines:
    out = Lines()
    logs.configure(level="debug", json=True, component="api", stream=out)
    return out


log = logs.logger("bpc.somewhere")


def test_a_line_is_one_json_object_in_a_fixed_order(lines: Lines) -> None:
    with logs.correlation("b3a4fefe-7d3f-4e88-9a0f-7d1c2fa0b4e4"):
        log.info("request completed", http={"method": "GET", "status": 200, "duration_ms": 2})

    line = lines.last()
    assert list(line) == ["ts", "level", "component", "msg", "correlation_id", "logger", "http"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("ts"))
    assert line == {
        "level": "info",
        "component": "api",
        "msg": "request completed",
        "correlation_id": "b3a4fefe-7d3f-4e88-9a0f-7d1c2fa0b4e4",
        "logger": "bpc.somewhere",
        "http": {"method": "GET", "status": 200, "duration_ms": 2},
    }


def test_a_whole_second_still_has_six_digits(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    class Noon(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> "Noon":
            return cls(2025, 12, 28, 12, 34, 56, tzinfo=tz)

    monkeypatch.setattr(dt, "datetime", Noon)

    log.info("tick")

    assert lines.last()["ts"] == "2025-12-28T12:34:56.000000Z"


@pytest.mark.parametrize(
    ("method", "level"),
    [("debug", "debug"), ("info", "info"), ("warning", "warn"), ("error", "error"), ("critical", "error")],
)
def test_there_are_four_levels(lines: Lines, method: str, level: str) -> None:
    getattr(log, method)("ours")
    getattr(logging.getLogger("theirs"), method)("theirs")

    assert [line["level"] for line in lines.all()] == [level, level]


@pytest.mark.parametrize(("level", "expected"), [("debug", 4), ("info", 3), ("warn", 2), ("error", 1)])
def test_what_is_below_the_level_is_not_logged(level: logs.Level, expected: int) -> None:
    out = Lines()
    logs.configure(level=level, json=True, component="api", stream=out)

    for speak in (log, logging.getLogger("theirs")):
        speak.debug("a")
        speak.info("b")
        speak.warning("c")
        speak.error("d")

    assert len(out.all()) == 2 * expected


def test_libraries_that_log_every_url_only_warn(lines: Lines) -> None:
    for name in ("httpx2", "httpcore2.connection"):
        logging.getLogger(name).info("HTTP Request: GET https://example.com/?signature=abc")
        logging.getLogger(name).warning("careful")

    assert [(line["logger"], line["msg"]) for line in lines.all()] == [
        ("httpx2", "careful"),
        ("httpcore2.connection", "careful"),
    ]


def test_lines_of_libraries_have_the_same_shape(lines: Lines) -> None:
    with logs.correlation("c-1"):
        logging.getLogger("asyncpg").warning("lost %d connections", 3, extra={"host": "db"})

    line = lines.last()
    del line["ts"]
    assert line == {
        "level": "warn",
        "component": "api",
        "msg": "lost 3 connections",
        "correlation_id": "c-1",
        "logger": "asyncpg",
        "host": "db",
    }


def test_warnings_of_python_are_lines_too(lines: Lines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn("old-fashioned", UserWarning, stacklevel=1)

    assert lines.last()["logger"] == "py.warnings"
    assert "old-fashioned" in lines.last()["msg"]


def test_outside_of_a_request_the_correlation_id_is_null(lines: Lines) -> None:
    log.info("starting")

    assert lines.last()["correlation_id"] is None
    assert logs.correlation_id() is None


async def test_each_task_keeps_its_own_correlation_id(lines: Lines) -> None:
    started = asyncio.Barrier(2)

    async def work(name: str) -> None:
        with logs.correlation(name):
            await started.wait()
            log.info(name)

    await asyncio.gather(work("one"), work("two"))

    assert {(line["msg"], line["correlation_id"]) for line in lines.all()} >= {("one", "one"), ("two", "two")}


def test_a_nested_correlation_gives_the_outer_one_back() -> None:
    with logs.correlation("outer"):
        with logs.correlation("inner"):
            assert logs.correlation_id() == "inner"
        assert logs.correlation_id() == "outer"


def test_a_caller_may_name_another_component_and_keeps_clashing_words(lines: Lines) -> None:
    log.bind(component="worker").info("hello", level="high", ts="noon", msg="x")

    line = lines.last()
    assert (line["component"], line["level"], line["msg"]) == ("worker", "info", "hello")
    assert (line["level_"], line["msg_"]) == ("high", "x")


def test_configuring_again_replaces_the_first(lines: Lines) -> None:
    second = Lines()

    logs.configure(level="info", json=True, component="worker", stream=second)
    log.info("once")

    assert lines.all() == []
    assert second.last()["component"] == "worker"


def test_a_terminal_gets_readable_coloured_lines_unless_json_was_chosen() -> None:
    open_choice, chosen = Terminal(), Terminal()

    logs.configure(level="info", json=None, component="api", stream=open_choice)
    log.info("hello", size=3)
    logs.configure(level="info", json=True, component="api", stream=chosen)
    log.info("hello", size=3)

    assert "hello" in open_choice.getvalue()
    assert "\x1b[" in open_choice.getvalue()
    assert json.loads(chosen.getvalue())["size"] == 3


def test_a_file_gets_json_unless_readable_lines_were_chosen() -> None:
    open_choice, chosen = io.StringIO(), io.StringIO()

    logs.configure(level="info", json=None, component="api", stream=open_choice)
    log.info("hello")
    logs.configure(level="info", json=False, component="api", stream=chosen)
    log.info("hello")

    assert json.loads(open_choice.getvalue())["msg"] == "hello"
    assert re.match(r"\S+Z \[info +\] hello", chosen.getvalue())
    assert "\x1b" not in chosen.getvalue()


def test_a_value_cannot_repaint_the_terminal_or_add_lines() -> None:
    out = Terminal()
    logs.configure(level="info", json=None, component="api", stream=out)

    log.info("evil\x1b[2J\nFAKE [error] line\r", name="\x9b31m")

    assert out.getvalue().count("\n") == 1
    assert "\x1b[2J" not in out.getvalue()
    assert not {"\r", "\x9b"} & set(out.getvalue())


def test_an_exception_is_logged_with_a_structured_traceback(lines: Lines) -> None:
    try:
        _fail("no such battery")
    except LookupError:
        log.exception("could not compile")

    line = lines.last()
    assert line["level"] == "error"
    (found,) = line["exception"]
    assert (found["exc_type"], found["exc_value"]) == ("LookupError", "no such battery")
    assert [frame["name"] for frame in found["frames"]][-1] == "_fail"
    assert all(set(frame) == {"filename", "lineno", "name"} for frame in found["frames"])


def test_local_variables_are_never_in_a_traceback(lines: Lines) -> None:
    try:
        _fail("no", plain="Zq7canary")
    except LookupError:
        log.exception("oops")

    assert "Zq7canary" not in lines.getvalue()


def _fail(says: str, plain: str = "") -> None:
    raise LookupError(says)


def test_an_exception_in_a_thread_is_a_line(lines: Lines) -> None:
    thread = threading.Thread(target=_fail, args=("in a thread",))
    thread.start()
    thread.join()

    assert lines.last()["msg"] == "uncaught exception"
    assert lines.last()["exception"][0]["exc_value"] == "in a thread"


UNCAUGHT = """
from bpc import logs
logs.configure(level="info", json=None, component="worker")
raise {}
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_an_uncaught_exception_is_one_json_line_on_stderr() -> None:
    ended = run(UNCAUGHT.format("ValueError('password=Zq7canary')"))

    (line,) = ended.stderr.splitlines()
    assert ended.returncode == 1
    assert json.loads(line)["level"] == "error"
    assert json.loads(line)["exception"][0]["exc_value"] == "password=[redacted]"


def test_stopping_with_control_c_is_not_logged_as_an_error() -> None:
    assert "uncaught" not in run(UNCAUGHT.format("KeyboardInterrupt")).stderr


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
    ("text", "shown"),
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
def test_text_that_looks_secret_is_hidden(text: str, shown: str) -> None:
    assert logs.redacted(text) == shown


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
    assert logs.redacted(text) == text


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
        _fail(text)
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


def _send_to_ours_only() -> None:
    """Leave out the test runner's own handlers, which cannot write these values."""
    root = logging.getLogger()
    root.handlers[:] = [handler for handler in root.handlers if type(handler).__module__ == logs.__name__]


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_what_cannot_be_written_down_is_described(lines: Lines) -> None:
    circle: list[object] = []
    circle.append(circle)

    _send_to_ours_only()
    log.info("x", broken=Unprintable(), circle=circle, huge=10**5000, kinds={1, 2}, long="y" * 100_000)

    line = lines.last()
    assert line["broken"] == "<Unprintable that cannot be printed>"
    assert line["huge"] == "<int that cannot be printed>"
    assert sorted(line["kinds"]) == [1, 2]
    assert line["long"].endswith("… (67232 more)")


class Restless(dict[str, object]):
    def items(self) -> Any:
        raise RuntimeError("password=Zq7canary")


def test_a_line_that_cannot_be_made_is_reported_without_its_content(
    lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    log.info("Zq7canary", value=Restless())

    assert lines.last()["msg"] == "a line of `bpc.somewhere` could not be logged"
    assert "Zq7canary" not in lines.getvalue() + capsys.readouterr().err


@pytest.mark.parametrize("unit", ["a", "://", "bpc_a_", "password", "-----BEGIN PRIVATE KEY-----", "x_token ", "://a:"])
def test_hostile_text_is_redacted_in_time_that_grows_with_its_length(unit: str) -> None:
    from time import process_time

    start = process_time()
    logs.redacted(unit * (100_000 // len(unit)))

    assert process_time() - start < 2
