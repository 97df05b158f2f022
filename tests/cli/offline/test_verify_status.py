"""`bpc verify --status` and `--online`: what became of a passport, from a file or from a host that the user pinned."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bpc.cli.offline.status_source import find_hosts, find_key_set_address
from bpc.core.audit.signing import to_base64
from bpc.core.exports.disclosure import make_view
from bpc.core.formats.timestamps import format_time
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.receipt import read_receipt
from bpc.core.passport.view_envelope import wrap_view
from bpc.core.status.statements import StatusPlace
from bpc.core.status.status_list import PassportState
from bpc.core.tlog.policy import parse_policy
from bpc.runtime import clock
from bpc.runtime.static_server import StaticAnswer, serve_requests
from tests.cli.program import Program
from tests.core.sample_passports import ISSUED_AT, KEY, OTHER_KEY, OTHER_SEED, make_small_bundle
from tests.core.status.sample_status import INDEX, make_list, make_statement, rebuild_bundle
from tests.core.tlog.sample_log import make_log
from tests.journey.test_status_readers import LOG, make_proof

PLAIN = make_small_bundle()
VERSION = read_receipt(read_bundle(PLAIN)["receipt.json"]).passport_version_id
LIST_PATH = "/status/lists/77777777-0000-4000-8000-000000000007"


def make_todays_list(url: str, state: PassportState) -> bytes:
    now = clock.now()
    return make_list(PLAIN, {INDEX: state}, url=url, valid_from=now, valid_until=now + timedelta(hours=1))


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [{"key_id": "issuer-2027", "public_key": to_base64(KEY)}]}))
    return file


def test_a_file_tells_what_became_of_a_bundle_or_a_view(bpc: Program, keys: Path, tmp_path: Path) -> None:
    bundle, view, revoked, said = (tmp_path / name for name in ("bundle.zip", "view.json", "list.json", "said.json"))
    statement = make_statement(PLAIN)
    bundle.write_bytes(rebuild_bundle(PLAIN, status=statement))
    view.write_bytes(wrap_view(make_view(read_bundle(PLAIN), "public"), log_proof=None, statement=statement))
    revoked.write_bytes(make_list(PLAIN, {INDEX: PassportState.REVOKED}))
    said.write_bytes(make_statement(PLAIN, status="superseded", successor=VERSION))

    for file in (bundle, view):
        answer = bpc.run("verify", file, "--keys", keys, "--status", revoked)
        assert answer.code == 1
        assert "fail  status           it is revoked" in answer.out
        assert "ask the issuer for the passport that is in force" in answer.out
        superseded = bpc.run_ok("verify", file, "--keys", keys, "--status", said, "--require", "status")
        assert "is genuine, but it does not count any more: superseded by" in superseded.out
        document = bpc.run_ok("verify", file, "--keys", keys, "--status", said, "--json").json()
        assert document["status"]["verdict"] == "superseded"
        assert bpc.run("verify", file, "--keys", keys, "--require", "status,log").code == 1
    assert "not both" in bpc.run("verify", bundle, "--keys", keys, "--status", said, "--online").err


def test_only_a_host_that_the_user_pinned_is_asked(bpc: Program, keys: Path, tmp_path: Path) -> None:
    asked: list[str] = []
    documents: dict[str, bytes] = {}

    def answer(_: str, path: str, __: bytes) -> StaticAnswer:
        asked.append(path)
        return StaticAnswer(status=200 if path in documents else 404, body=documents.get(path, b""), headers={})

    bundle = tmp_path / "bundle.zip"
    with serve_requests("127.0.0.1", 0, answer) as port:
        base_url = f"http://127.0.0.1:{port}"
        place = StatusPlace(f"{base_url}{LIST_PATH}", INDEX)
        bundle.write_bytes(rebuild_bundle(PLAIN, status=make_statement(PLAIN, place=place)))
        documents[LIST_PATH] = make_todays_list(place.list_url, PassportState.IN_FORCE)

        unpinned = bpc.run("verify", bundle, "--keys", keys, "--online")
        key_set = json.loads(keys.read_text())
        keys.write_text(json.dumps({**key_set, "status_url": "https://elsewhere.example"}))
        elsewhere = bpc.run_ok("verify", bundle, "--keys", keys, "--online")
        assert asked == [], "the bundle alone names this host"
        keys.write_text(json.dumps({**key_set, "status_url": base_url}))
        in_force = bpc.run_ok("verify", bundle, "--keys", keys, "--online", "--require", "status")
        documents[LIST_PATH] = make_todays_list(place.list_url, PassportState.REVOKED)
        said = make_statement(PLAIN, place=place, status="revoked", reason="recalled")
        documents[f"/status/statements/{VERSION}"] = said
        revoked = bpc.run("verify", bundle, "--keys", keys, "--online")
        bundle.write_bytes(PLAIN)  # from before status lists
        old = bpc.run("verify", bundle, "--keys", keys, "--online")
        documents.clear()
        unknown = bpc.run_ok("verify", bundle, "--keys", keys, "--online")

    assert "neither your keys nor your policy name a host" in unpinned.err
    assert "not asked: the passport names http://127.0.0.1" in elsewhere.out
    assert "ok  status           in force" in in_force.out
    assert (revoked.code, old.code) == (1, 1)
    assert "it is revoked since" in revoked.out
    assert "recalled" in old.out
    assert "no host that you trust knows this passport" in unknown.out


def test_after_a_compromise_the_host_is_asked_for_what_it_says_again(bpc: Program, tmp_path: Path) -> None:
    asked: list[str] = []
    documents: dict[str, bytes] = {}

    def answer(_: str, path: str, __: bytes) -> StaticAnswer:
        asked.append(path)
        return StaticAnswer(status=200 if path in documents else 404, body=documents.get(path, b""), headers={})

    bundle, keys, policy = (tmp_path / name for name in ("bundle.zip", "keys.json", "policy.txt"))
    policy.write_text(f"log {LOG.signer.verifier}\nquorum none")
    stolen = {"key_id": "issuer-2027", "public_key": to_base64(KEY)}
    stolen |= {"status": "COMPROMISED", "compromised_since": format_time(ISSUED_AT + timedelta(days=1))}
    with serve_requests("127.0.0.1", 0, answer) as port:
        place = StatusPlace(f"http://127.0.0.1:{port}{LIST_PATH}", INDEX)
        statement = make_statement(PLAIN, place=place)
        bundle.write_bytes(rebuild_bundle(PLAIN, log_proof=make_proof(ISSUED_AT), status=statement))
        following = {"key_id": "next-key", "public_key": to_base64(OTHER_KEY)}
        host = {"status_url": f"http://127.0.0.1:{port}", "keys": [stolen, following]}
        keys.write_text(json.dumps(host))
        by_next: dict[str, Any] = {"seed": OTHER_SEED, "signing_key_id": "next-key"}
        now = clock.now()
        documents[LIST_PATH] = make_list(
            PLAIN, url=place.list_url, valid_from=now, valid_until=now + timedelta(hours=1), **by_next
        )
        arguments = ("verify", bundle, "--keys", keys, "--policy", policy, "--online", "--require", "status,log")
        silent = bpc.run(*arguments)
        documents[f"/status/statements/{VERSION}"] = make_statement(PLAIN, place=place, **by_next)
        asked.clear()
        in_force = bpc.run_ok(*arguments)

    assert (silent.code, "is not one you gave" in silent.out) == (1, True), silent.out
    assert "ok  status           in force" in in_force.out
    assert asked == [f"/status/statements/{VERSION}", LIST_PATH]


def test_hosts_are_those_of_the_key_set_and_of_the_logs() -> None:
    policy = parse_policy(f"log {make_log(0).signer.verifier} https://mirror.example/x\nquorum none".encode())

    assert find_hosts("https://issuer.example:8443/base", policy) == (
        "https://issuer.example:8443",
        "https://log.example",
        "https://mirror.example",
    )
    assert find_hosts(None, None) == ()
    assert find_key_set_address(b"3q2+7w==") is None
    assert find_key_set_address(b'{"keys":[]}') is None
