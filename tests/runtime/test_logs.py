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

import pytest

from bpc.runtime import logs
from tests.runtime.log_lines import Lines, raise_lookup_error


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


log = logs.get_logger("bpc.somewhere")
pytestmark = pytest.mark.usefixtures("restore_logging")


def test_a_line_is_one_json_object_in_a_fixed_order(lines: Lines) -> None:
    with logs.bind_correlation_id("b3a4fefe-7d3f-4e88-9a0f-7d1c2fa0b4e4"):
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
    with logs.bind_correlation_id("c-1"):
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
    assert logs.get_correlation_id() is None


async def test_each_task_keeps_its_own_correlation_id(lines: Lines) -> None:
    started = asyncio.Barrier(2)

    async def work(name: str) -> None:
        with logs.bind_correlation_id(name):
            await started.wait()
            log.info(name)

    await asyncio.gather(work("one"), work("two"))

    assert {(line["msg"], line["correlation_id"]) for line in lines.all()} >= {("one", "one"), ("two", "two")}


def test_a_nested_correlation_gives_the_outer_one_back() -> None:
    with logs.bind_correlation_id("outer"):
        with logs.bind_correlation_id("inner"):
            assert logs.get_correlation_id() == "inner"
        assert logs.get_correlation_id() == "outer"


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
        raise_lookup_error("no such battery")
    except LookupError:
        log.exception("could not compile")

    line = lines.last()
    assert line["level"] == "error"
    (exception,) = line["exception"]
    assert (exception["exc_type"], exception["exc_value"]) == ("LookupError", "no such battery")
    assert [frame["name"] for frame in exception["frames"]][-1] == "raise_lookup_error"
    assert all(set(frame) == {"filename", "lineno", "name"} for frame in exception["frames"])


def test_local_variables_are_never_in_a_traceback(lines: Lines) -> None:
    try:
        raise_lookup_error("no", plain="Zq7canary")
    except LookupError:
        log.exception("oops")

    assert "Zq7canary" not in lines.getvalue()


def test_an_exception_in_a_thread_is_a_line(lines: Lines) -> None:
    thread = threading.Thread(target=raise_lookup_error, args=("in a thread",))
    thread.start()
    thread.join()

    assert lines.last()["msg"] == "uncaught exception"
    assert lines.last()["exception"][0]["exc_value"] == "in a thread"


UNCAUGHT = """
from bpc.runtime import logs
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
