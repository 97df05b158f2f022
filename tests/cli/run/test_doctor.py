"""`bpc doctor`: what is wrong, what to do about it, and not a thing changed."""

import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from service_jobs.queries import QueueHealth

from bpc.cli.run import doctor_service
from bpc.cli.run.doctor_service import judge_log, judge_workers
from bpc.runtime import clock
from bpc.runtime.running_service import RunningService, announce_service
from bpc.runtime.settings import load_settings
from bpc.storage.backup import record_last_backup
from bpc.storage.tlog.log_files import LogFolder
from tests.cli.conftest import Installation
from tests.cli.program import Program, RunResult
from tests.running_installation import RunningInstallation

CONNECTION_START = b"\x01\x00\x00\x00\x00\x00\x00"
KEYS = {"signing.key": "A" * 43 + "=", "pepper.key": "A" * 43 + "="}


def read_checks(ended: RunResult) -> dict[str, dict[str, Any]]:
    """What it found, by check; the exit code must agree with it."""
    report = ended.json()
    failed = any(finding["health"] == "fail" for finding in report["checks"])
    assert (report["ok"], ended.code) == (not failed, 1 if failed else 0)
    return {finding["check"]: finding for finding in report["checks"]}


def test_a_new_machine_is_healthy_and_stays_new(bpc: Program) -> None:
    missing = bpc.data_dir / "not" / "yet"

    checks = read_checks(Program(missing).run_ok("doctor", "--json"))

    assert {name: check["health"] for name, check in checks.items()} == {
        "python": "ok",
        "settings": "ok",
        "disk": "ok",
        "keys": "skip",
        "database": "skip",
        "API": "skip",
        "backup": "skip",
        "certificate": "skip",
        "rabbitmq": "skip",
        "sign-in": "skip",
        "signer": "skip",
    }
    assert list(bpc.data_dir.iterdir()) == []


def test_a_healthy_installation_is_ok_in_everything_and_unchanged(installation: Installation) -> None:
    before = read_files(installation.bpc.data_dir)

    checks = read_checks(installation.bpc.run("doctor", "--json"))

    assert checks.keys() >= {"keys", "database", "roles", "migrations", "clock"}
    failing = {name for name, check in checks.items() if check["health"] == "fail"}
    assert failing <= {"workers"}  # other tests may have left jobs, and no worker runs here
    skipped = {name for name, check in checks.items() if check["health"] != "ok"}
    assert skipped - {"workers", "log"} == {
        "API",
        "backup",
        "certificate",
        "rabbitmq",
        "sign-in",
        "signer",
    }  # nothing else is running here
    assert all(check.keys() == {"check", "health", "says", "fix"} for check in checks.values())
    assert read_files(installation.bpc.data_dir) == before


def test_a_person_reads_a_line_per_check_and_its_fix(bpc: Program) -> None:
    with_wrong_mode = write_keys(bpc, mode=0o644)

    ended = with_wrong_mode.run("doctor")

    assert ended.code == 1
    assert "  ok  python      3." in ended.out
    assert f"fail  keys        `{bpc.data_dir}/keys/signing.key` can be read by other users\n" in ended.out
    assert f"fix: chmod 600 {bpc.data_dir}/keys/signing.key\n" in ended.out


def test_a_key_that_is_not_there_is_not_made(bpc: Program) -> None:
    write_keys(bpc, mode=0o600)
    (bpc.data_dir / "keys" / "pepper.key").unlink()

    assert read_checks(bpc.run_ok("doctor", "--json"))["keys"]["health"] == "skip"
    assert [file.name for file in (bpc.data_dir / "keys").iterdir()] == ["signing.key"]


def test_pending_migrations_are_a_failure(bpc_without_tables: Program) -> None:
    checks = read_checks(bpc_without_tables.run("doctor", "--json"))

    assert checks["migrations"]["health"] == "fail"
    assert checks["migrations"]["says"].endswith(" pending")
    assert checks["migrations"]["fix"] == "run `bpc migrate`"


def test_wrong_settings_are_a_failure_and_are_all_named(bpc: Program) -> None:
    checks = read_checks(bpc.with_settings(BPC_HTTP_PORT="many", BPC_LOG_LEVEL="loud").run("doctor", "--json"))

    assert checks["settings"]["health"] == "fail"
    assert "BPC_HTTP_PORT" in checks["settings"]["says"]
    assert "BPC_LOG_LEVEL" in checks["settings"]["says"]


def test_a_setting_that_looks_like_a_mistake_is_a_warning(bpc: Program) -> None:
    ended = bpc.with_settings(BPC_HTTP_PROT="8080").run("doctor")

    assert ended.code == 0
    assert "warn  settings    `BPC_HTTP_PROT` is not a setting" in ended.out


def test_an_external_database_that_does_not_answer_is_a_failure(bpc: Program) -> None:
    ended = bpc.with_settings(DATABASE_URL="postgresql://ada:hunter2@127.0.0.1:1/bpc").run("doctor", "--json")

    assert read_checks(ended)["database"]["health"] == "fail"
    assert "DATABASE_URL" in read_checks(ended)["database"]["fix"]
    assert "hunter2" not in ended.out + ended.err
    assert list(bpc.data_dir.iterdir()) == []


def test_a_broker_that_is_not_there_is_a_failure(bpc: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    check = read_checks(use_queue_port(bpc, port).run("doctor", "--json"))["rabbitmq"]

    assert (check["health"], check["says"]) == ("fail", f"127.0.0.1:{port}: Connection refused")
    assert "BPC_QUEUE_URL" in check["fix"]


def test_a_broker_that_answers_is_fine(bpc: Program) -> None:
    with serve_answer(CONNECTION_START) as port:
        check = read_checks(use_queue_port(bpc, port).run("doctor", "--json"))["rabbitmq"]

    assert (check["health"], check["says"]) == ("ok", f"answers on 127.0.0.1:{port}")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_something_else_on_the_brokers_port_is_a_failure(bpc: Program, answer: bytes) -> None:
    with serve_answer(answer) as port:
        check = read_checks(use_queue_port(bpc, port).run("doctor", "--json"))["rabbitmq"]

    assert (check["health"], check["says"]) == ("fail", f"127.0.0.1:{port} does not speak AMQP")


def test_a_running_installation_has_workers_and_an_api_that_answers(running_installation: RunningInstallation) -> None:
    checks = read_checks(running_installation.bpc.run_ok("doctor", "--json"))

    assert (checks["API"]["health"], checks["workers"]["health"], checks["clock"]["health"]) == ("ok", "ok", "ok")
    assert checks["API"]["says"] == f"{running_installation.bpc.settings['BPC_URL']} is ready"
    assert checks["workers"]["says"].startswith("1 worker; ")


def test_an_api_that_runs_and_does_not_answer_is_a_failure(bpc: Program) -> None:
    nobody = "http://127.0.0.1:9"
    configured = read_checks(bpc.with_settings(BPC_URL=nobody).run("doctor", "--json"))["API"]
    with announce_service(bpc.data_dir, RunningService(url=nobody, api_key=None)):
        running = read_checks(bpc.run("doctor", "--json"))["API"]

    assert (configured["health"], running["health"]) == ("warn", "fail")
    assert configured["says"] == running["says"] == f"{nobody} does not answer: Connection refused"


def test_jobs_that_wait_without_a_worker_are_a_failure() -> None:
    health = QueueHealth(depth=3, active=0, stale=0, oldest_seconds=9.0, workers=0, unhandled={})

    assert judge_workers(health).health == "fail"
    assert judge_workers(replace(health, workers=1)).health == "ok"
    assert judge_workers(replace(health, workers=1, stale=1)).health == "warn"
    assert judge_workers(replace(health, workers=1, unhandled={"SIGN": 1})).health == "warn"
    assert judge_workers(replace(health, depth=0)).health == "skip"


def test_a_backup_is_dated_and_an_old_one_is_a_warning(bpc: Program) -> None:
    record_last_backup(bpc.data_dir, clock.now() - timedelta(hours=2))
    fresh = read_checks(bpc.run_ok("doctor", "--json"))["backup"]
    record_last_backup(bpc.data_dir, clock.now() - timedelta(days=9))
    old = read_checks(bpc.run_ok("doctor", "--json"))["backup"]

    assert (fresh["health"], old["health"]) == ("ok", "warn")
    assert fresh["says"].endswith(", 2 hours ago")
    assert old["says"].endswith(", 9 days ago")


@pytest.mark.parametrize(("days", "health"), [(90, "ok"), (10, "warn"), (-1, "fail")])
def test_certificates_that_expire_are_named(bpc: Program, tmp_path: Path, days: int, health: str) -> None:
    expires_at = clock.now() + timedelta(days=days)
    with serve_tls(write_certificate(tmp_path, expires_at)) as port:
        program = bpc.with_settings(BPC_URL=f"https://127.0.0.1:{port}")
        check = read_checks(program.run("doctor", "--json"))["certificate"]

    assert check["health"] == health
    assert check["says"].startswith(f"API 127.0.0.1:{port}: expire")
    assert f"{expires_at:%Y-%m-%d}" in check["says"]


def test_a_server_without_tls_where_it_is_configured_is_a_failure(bpc: Program) -> None:
    with serve_answer(b"N") as port:
        url = f"postgresql://ada@127.0.0.1:{port}/bpc?sslmode=require"
        check = next(iter(doctor_service.check_certificates(load_settings({"DATABASE_URL": url}, cwd=bpc.data_dir))))

    assert (check.health, check.says) == ("fail", f"database 127.0.0.1:{port}: it does not offer TLS")


def write_certificate(folder: Path, expires_at: datetime) -> Path:
    """A self-signed certificate and its key in one file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(expires_at - timedelta(days=365))
        .not_valid_after(expires_at)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    encoded_key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(encoded_key + certificate.public_bytes(Encoding.PEM))
    return file


@contextmanager
def serve_tls(certificate: Path) -> Iterator[int]:
    """A server that begins TLS with whoever comes and says nothing, until the block ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    conn, _ = server.accept()
                except OSError:
                    return
                with suppress(OSError), conn, context.wrap_socket(conn, server_side=True):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def use_queue_port(bpc: Program, port: int) -> Program:
    return bpc.with_settings(BPC_QUEUE_ENABLED="true", BPC_QUEUE_URL=f"amqp://guest:guest@127.0.0.1:{port}/")


@contextmanager
def serve_answer(answer: bytes) -> Iterator[int]:
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


def write_keys(bpc: Program, *, mode: int) -> Program:
    folder = bpc.data_dir / "keys"
    folder.mkdir(mode=0o700)
    for name, text in KEYS.items():
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
    return bpc


def read_files(folder: Path) -> set[str]:
    """Everything of ours; the server's own files are its own business."""
    return {str(file) for file in folder.rglob("*") if "postgres" not in file.relative_to(folder).parts[0]}


def test_looking_makes_no_database(installation: Installation) -> None:
    name = f"unmade_{clock.new_id().hex}"
    elsewhere = installation.bpc.with_settings(BPC_DB_NAME=name)

    looked, checked = elsewhere.run("doctor", "--json"), elsewhere.run("migrate", "--check")

    assert read_checks(looked)["database"]["health"] == "fail"
    assert "does not exist" in read_checks(looked)["database"]["says"]
    assert (checked.code, "does not exist" in checked.err) == (69, True)


PEPPERS = {name: b64encode(name.encode() * 8).decode() for name in ("old", "new", "other")}
CURRENT, NEXT, PREVIOUS = (f"BPC_API_KEY_PEPPER_{part}BASE64" for part in ("", "NEXT_", "PREVIOUS_"))
STILL = "a key is rehashed when it is used; `bpc apikeys list` shows the rest: revoke unused ones"


def test_replacing_the_pepper_it_says_which_keys_are_left_and_when_the_old_one_may_go(
    bpc_without_tables: Program,
) -> None:
    old = bpc_without_tables.with_settings(**{CURRENT: PEPPERS["old"]})
    ahead = bpc_without_tables.with_settings(**{CURRENT: PEPPERS["new"], PREVIOUS: PEPPERS["old"]})
    old.run_ok("migrate")
    old.run_ok("tenant", "create", "acme")
    arguments = ["apikey", "create", "--tenant", "acme", "--role", "Admin", "--json"]
    first, _ = old.run_ok(*arguments).json(), ahead.run_ok(*arguments)

    left, missing = (
        read_checks(bpc.run("doctor", "--json"))["API keys"]
        for bpc in (ahead, bpc_without_tables.with_settings(**{CURRENT: PEPPERS["other"]}))
    )
    findings = {
        key["key_prefix"]: key["pepper"] for key in ahead.run_ok("apikey", "list", "--tenant", "acme", "--json").json()
    }
    ahead.run_ok("apikey", "revoke", first["key_prefix"], "--tenant", "acme")
    done = read_checks(ahead.run("doctor", "--json"))["API keys"]
    alone = read_checks(bpc_without_tables.with_settings(**{CURRENT: PEPPERS["new"]}).run("doctor", "--json"))[
        "API keys"
    ]

    assert sorted(findings.values()) == ["current", "previous"]
    assert findings[first["key_prefix"]] == "previous"
    assert (left["health"], left["fix"]) == ("warn", STILL)
    assert left["says"] == "1 of 2 valid keys may need the previous pepper, of `acme`"
    assert missing["health"] == "fail"
    assert missing["says"].startswith("2 of 2 valid keys are refused, of `acme`: their hashes were made with a pepper")
    assert (done["health"], done["says"]) == (
        "ok",
        f"all 1 valid keys no longer need the previous pepper; you can unset {PREVIOUS}",
    )
    assert (alone["health"], alone["says"]) == ("ok", "1 valid, all use a configured pepper")


def test_a_pepper_that_is_to_be_replaced_by_itself_is_named_also_where_it_is_in_a_file(
    bpc_without_tables: Program,
) -> None:
    bpc_without_tables.run_ok("migrate")
    write_keys(bpc_without_tables, mode=0o600)
    pepper = (bpc_without_tables.data_dir / "keys" / "pepper.key").read_text().strip()
    halfway = bpc_without_tables.with_settings(**{PREVIOUS: pepper})

    says = read_checks(halfway.run("doctor", "--json"))["keys"]
    ended = halfway.run("seed")

    assert (says["health"], says["says"]) == ("fail", "the previous pepper is the same as the current pepper")
    assert "the previous pepper is the same as the current pepper" in ended.err
    assert f"set {PREVIOUS} to another pepper" in ended.err
    assert "Traceback" not in ended.err


def test_keys_that_others_made_with_the_next_pepper_are_no_news(bpc_without_tables: Program) -> None:
    ahead = bpc_without_tables.with_settings(**{CURRENT: PEPPERS["new"]})
    ahead.run_ok("migrate")
    ahead.run_ok("tenant", "create", "acme")
    ahead.run_ok("apikey", "create", "--tenant", "acme", "--role", "Admin", "--json")
    behind = bpc_without_tables.with_settings(**{CURRENT: PEPPERS["old"], NEXT: PEPPERS["new"]})

    assert read_checks(behind.run("doctor", "--json"))["API keys"]["health"] == "ok"
    assert [key["pepper"] for key in behind.run_ok("apikey", "list", "--tenant", "acme", "--json").json()] == ["next"]


def test_without_a_pepper_keys_are_counted_and_none_is_made(bpc_without_tables: Program) -> None:
    bpc_without_tables.run_ok("migrate")

    checks = read_checks(bpc_without_tables.run("doctor", "--json"))

    assert checks["API keys"]["says"] == "0 valid; no pepper is configured, so they were not checked"
    assert not (bpc_without_tables.data_dir / "keys").exists()


def test_a_log_that_nobody_keeps_or_that_is_elsewhere_is_named(tmp_path: Path) -> None:
    now = clock.now()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "checkpoint").touch()

    def judge(waiting: int, hours: int | None, folder: str = "kept") -> str:
        signed_at = None if hours is None else now - timedelta(hours=hours)
        return judge_log(7, waiting, signed_at, now, LogFolder(tmp_path / folder)).health

    assert judge(3, None) == "skip"
    assert (judge(0, 1), judge(3, 0), judge(3, 1)) == ("ok", "ok", "fail")
    assert judge(0, 1, "elsewhere") == "warn"
