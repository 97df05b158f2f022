"""`bpc doctor`: what is wrong, what to do about it, and not a thing changed."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bpc import fresh
from tests.cli.conftest import Installation
from tests.cli.program import Ended, Program

CONNECTION_START = b"\x01\x00\x00\x00\x00\x00\x00"
KEYS = {"signing.key": "A" * 43 + "=", "pepper.key": "A" * 43 + "="}


def found(ended: Ended) -> dict[str, dict[str, Any]]:
    """What it found, by check; the exit code must agree with it."""
    told = ended.json()
    failed = any(finding["health"] == "fail" for finding in told["checks"])
    assert (told["ok"], ended.code) == (not failed, 1 if failed else 0)
    return {finding["check"]: finding for finding in told["checks"]}


def test_a_new_machine_is_healthy_and_stays_new(bpc: Program) -> None:
    missing = bpc.data_dir / "not" / "yet"

    checks = found(Program(missing).ok("doctor", "--json"))

    assert {name: check["health"] for name, check in checks.items()} == {
        "python": "ok",
        "settings": "ok",
        "disk": "ok",
        "keys": "skip",
        "database": "skip",
        "rabbitmq": "skip",
    }
    assert list(bpc.data_dir.iterdir()) == []


def test_a_healthy_installation_is_ok_in_everything_and_unchanged(installation: Installation) -> None:
    before = files(installation.bpc.data_dir)

    checks = found(installation.bpc.ok("doctor", "--json"))

    assert checks.keys() >= {"keys", "database", "roles", "migrations", "clock"}
    assert {name for name, check in checks.items() if check["health"] != "ok"} == {"rabbitmq"}
    assert all(check.keys() == {"check", "health", "says", "fix"} for check in checks.values())
    assert files(installation.bpc.data_dir) == before


def test_a_person_reads_a_line_per_check_and_its_fix(bpc: Program) -> None:
    with_wrong_mode = kept_keys(bpc, mode=0o644)

    ended = with_wrong_mode.run("doctor")

    assert ended.code == 1
    assert "  ok  python      3." in ended.out
    assert f"fail  keys        `{bpc.data_dir}/keys/signing.key` can be read by other users\n" in ended.out
    assert f"fix: chmod 600 {bpc.data_dir}/keys/signing.key\n" in ended.out


def test_a_key_that_is_not_there_is_not_made(bpc: Program) -> None:
    kept_keys(bpc, mode=0o600)
    (bpc.data_dir / "keys" / "pepper.key").unlink()

    assert found(bpc.ok("doctor", "--json"))["keys"]["health"] == "skip"
    assert [file.name for file in (bpc.data_dir / "keys").iterdir()] == ["signing.key"]


def test_pending_migrations_are_a_failure(bare: Program) -> None:
    checks = found(bare.run("doctor", "--json"))

    assert checks["migrations"]["health"] == "fail"
    assert checks["migrations"]["says"].endswith(" pending")
    assert checks["migrations"]["fix"] == "run `bpc migrate`"


def test_wrong_settings_are_a_failure_and_are_all_named(bpc: Program) -> None:
    checks = found(bpc.having(BPC_HTTP_PORT="many", BPC_LOG_LEVEL="loud").run("doctor", "--json"))

    assert checks["settings"]["health"] == "fail"
    assert "BPC_HTTP_PORT" in checks["settings"]["says"]
    assert "BPC_LOG_LEVEL" in checks["settings"]["says"]


def test_a_setting_that_looks_like_a_mistake_is_a_warning(bpc: Program) -> None:
    ended = bpc.having(BPC_HTTP_PROT="8080").run("doctor")

    assert ended.code == 0
    assert "warn  settings    `BPC_HTTP_PROT` is not a setting" in ended.out


def test_an_external_database_that_does_not_answer_is_a_failure(bpc: Program) -> None:
    ended = bpc.having(DATABASE_URL="postgresql://ada:hunter2@127.0.0.1:1/bpc").run("doctor", "--json")

    assert found(ended)["database"]["health"] == "fail"
    assert "DATABASE_URL" in found(ended)["database"]["fix"]
    assert "hunter2" not in ended.out + ended.err
    assert list(bpc.data_dir.iterdir()) == []


def test_a_broker_that_is_not_there_is_a_failure(bpc: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    check = found(asking(bpc, port).run("doctor", "--json"))["rabbitmq"]

    assert (check["health"], check["says"]) == ("fail", f"127.0.0.1:{port}: Connection refused")
    assert "BPC_QUEUE_URL" in check["fix"]


def test_a_broker_that_answers_is_fine(bpc: Program) -> None:
    with answering(CONNECTION_START) as port:
        check = found(asking(bpc, port).run("doctor", "--json"))["rabbitmq"]

    assert (check["health"], check["says"]) == ("ok", f"answers on 127.0.0.1:{port}")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_something_else_on_the_brokers_port_is_a_failure(bpc: Program, answer: bytes) -> None:
    with answering(answer) as port:
        check = found(asking(bpc, port).run("doctor", "--json"))["rabbitmq"]

    assert (check["health"], check["says"]) == ("fail", f"127.0.0.1:{port} does not speak AMQP")


def asking(bpc: Program, port: int) -> Program:
    return bpc.having(BPC_QUEUE_ENABLED="true", BPC_QUEUE_URL=f"amqp://guest:guest@127.0.0.1:{port}/")


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that takes one greeting, gives this answer and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            conn, _ = server.accept()
            with conn:
                conn.recv(8)
                conn.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def kept_keys(bpc: Program, *, mode: int) -> Program:
    folder = bpc.data_dir / "keys"
    folder.mkdir(mode=0o700)
    for name, text in KEYS.items():
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
    return bpc


def files(folder: Path) -> set[str]:
    """Everything of ours; the server's own files are its own business."""
    return {str(file) for file in folder.rglob("*") if "postgres" not in file.relative_to(folder).parts[0]}


def test_looking_makes_no_database(installation: Installation) -> None:
    name = f"unmade_{fresh.new_id().hex}"
    elsewhere = installation.bpc.having(BPC_DB_NAME=name)

    looked, checked = elsewhere.run("doctor", "--json"), elsewhere.run("migrate", "--check")

    assert found(looked)["database"]["health"] == "fail"
    assert "does not exist" in found(looked)["database"]["says"]
    assert (checked.code, "does not exist" in checked.err) == (69, True)
