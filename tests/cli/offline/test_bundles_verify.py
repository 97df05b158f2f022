"""`bpc verify`: every step with its mark and its sentence, the exit code, and JSON for programs."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bpc.core.audit.signing import PinnedKey, Signer, key_to_json, parse_seed, to_base64
from bpc.core.exports.disclosure import make_view
from bpc.core.formats.hashes import sha256
from bpc.core.passport.bundle import Bundle, read_bundle, write_bundle
from bpc.core.passport.receipt import read_receipt
from bpc.core.verify.bundle import CLAIM, STEPS, VIEW_STEPS
from tests.cli.program import Program, RunResult
from tests.core.sample_passports import KEY, OTHER_KEY, make_rich_bundle, make_small_bundle

ISSUER = to_base64(KEY)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    file = tmp_path / "bundle.zip"
    file.write_bytes(make_small_bundle())
    return file


@pytest.fixture
def view(tmp_path: Path) -> Path:
    file = tmp_path / "view.json"
    file.write_bytes(make_view(read_bundle(make_rich_bundle()), "public"))
    return file


def test_every_step_is_printed_in_order_with_its_mark(bpc: Program, bundle: Path) -> None:
    lines = bpc.run_ok("verify", bundle, "--key", ISSUER).out.splitlines()

    assert [line.split()[:2] for line in lines[: len(STEPS)]] == [["ok", name] for name in STEPS]
    assert lines[-1] == "The bundle is signed by the issuer, and its values follow from its rules and facts."


def test_without_a_key_it_says_that_the_issuer_was_not_checked(bpc: Program, bundle: Path) -> None:
    output = bpc.run_ok("verify", bundle, "--unpinned").out

    assert "the issuer was not checked" in output
    assert "--key" in output


def test_without_a_key_it_fails_unless_that_is_asked_for(bpc: Program, bundle: Path) -> None:
    ended = bpc.run("verify", bundle)

    assert ended.code == 1
    assert "\nskip  signature        not checked: no key is pinned" in ended.out
    assert "--unpinned checks the rest without it" in ended.out
    assert "--unpinned is for a check without keys" in bpc.run("verify", bundle, "--unpinned", "--key", ISSUER).err


def test_the_log_is_checked_with_a_policy_and_required_on_demand(bpc: Program, bundle: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.txt"
    policy.write_text("quorum none\n")

    assert (
        "\n  ok  log              not checked: the bundle has no log proof"
        in bpc.run_ok("verify", bundle, "--unpinned").out
    )
    assert bpc.run_ok("verify", bundle, "--unpinned", "--policy", policy).code == 0
    required = bpc.run("verify", bundle, "--policy", policy, "--require", "log")
    assert required.code == 1
    assert "\nfail  log              not checked, and you require it" in required.out
    assert "--require takes `status`, `log` or both" in bpc.run("verify", bundle, "--require", "facts").err
    policy.write_text("trust me\n")
    assert "line 1 of the log policy" in bpc.run("verify", bundle, "--policy", policy).err


def test_a_program_gets_json(bpc: Program, bundle: Path) -> None:
    report = bpc.run_ok("verify", bundle, "--unpinned", "--json").json()

    assert sorted(report) == ["issuer", "ok", "status", "steps"]
    assert report["status"] == {"verdict": "not_asked", "since": None, "successor": None, "reason": None}
    assert (report["ok"], report["issuer"]) == (True, "unpinned")
    assert [sorted(step) for step in report["steps"]] == [["detail", "name", "ok", "skipped"]] * len(STEPS)
    assert [step["name"] for step in report["steps"]] == list(STEPS)
    assert bpc.run_ok("verify", bundle, "--key", ISSUER, "--json").json()["issuer"] == "pinned"


def test_a_step_that_fails_exits_1_and_is_named(bpc: Program, bundle: Path) -> None:
    entries = dict(read_bundle(make_small_bundle()).entries)
    payload = json.loads(entries["payload.json"])
    payload["fields"]["battery"]["capacity_kwh"] = "99.000000"
    entries["payload.json"] = json.dumps(payload, separators=(",", ":"), sort_keys=True).encode()
    bundle.write_bytes(write_bundle(Bundle(entries)))

    ended = bpc.run("verify", bundle, "--unpinned")

    assert (ended.code, ended.err) == (1, "")
    assert "\nfail  payload_hash " in ended.out
    assert "\nskip  replay           not checked: " in ended.out
    assert ended.out.endswith(
        "Do not rely on this bundle: payload_hash, proof_structure failed. 1 step could not be checked because of it.\n"
        "  next: get the bundle from its issuer again; if it fails again, tell the issuer which step failed\n"
    )


def test_a_file_that_is_no_bundle_has_one_cause_and_one_next_step(bpc: Program, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")

    ended = bpc.run("verify", tmp_path / "notes.txt")

    *steps, _, cause, advice = ended.out.splitlines()
    assert [line.split()[0] for line in steps] == ["fail", *["skip"] * (len(STEPS) - 1)]
    others = f"{len(STEPS) - 1} steps could not be checked because of it."
    assert cause == f"Do not rely on this bundle: canonical failed. {others}"
    assert advice == "  next: check that this file is a bundle, and that it was copied whole"


def test_the_wrong_key_is_the_one_thing_to_look_at(bpc: Program, bundle: Path) -> None:
    ended = bpc.run("verify", bundle, "--key", to_base64(OTHER_KEY))

    assert ended.out.endswith("  next: check that the key is the issuer's, from a source that you trust\n")


def test_another_issuers_key_exits_1(bpc: Program, bundle: Path) -> None:
    ended = bpc.run("verify", bundle, "--key", to_base64(OTHER_KEY), "--json")

    assert ended.code == 1
    assert [step["name"] for step in ended.json()["steps"] if not step["ok"]] == ["signature", "replay"]
    assert list_codes(ended) == {"signature": "SIGNATURE_INVALID"}
    assert ended.json()["issuer"] == "unpinned"


def list_codes(ended: RunResult) -> dict[str, str]:
    return {step["name"]: step["code"] for step in ended.json()["steps"] if "code" in step}


@pytest.mark.parametrize(
    ("signed", "codes"),
    [(b"another receipt", {"signature": "SIGNATURE_INVALID"}), (None, {})],
    ids=["wrong", "unreadable"],
)
def test_a_wrong_signature_has_its_code_and_one_that_cannot_be_checked_has_none(
    bpc: Program, bundle: Path, signed: bytes | None, codes: dict[str, str]
) -> None:
    entries = dict(read_bundle(make_small_bundle()).entries)
    receipt = json.loads(entries["receipt.json"])
    receipt["signature"] = "?" if signed is None else to_base64(Signer(parse_seed(bytes(32))).sign(sha256(signed)))
    entries["receipt.json"] = json.dumps(receipt, separators=(",", ":"), sort_keys=True).encode()
    bundle.write_bytes(write_bundle(Bundle(entries)))

    ended = bpc.run("verify", bundle, "--unpinned", "--json")

    assert ended.code == 1
    assert "signature" in {step["name"] for step in ended.json()["steps"] if not step["ok"]}
    assert list_codes(ended) == codes


def test_a_file_of_keys_holds_one_a_line_and_comments(bpc: Program, bundle: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text(f"# those we trust\n\n{to_base64(OTHER_KEY)}\n{ISSUER}  # the issuer\n")

    assert bpc.run_ok("verify", bundle, "--keys", keys, "--json").json()["issuer"] == "pinned"


@pytest.mark.parametrize("file", ["bundle", "view"])
def test_the_keys_of_a_set_are_trusted_by_their_names(
    bpc: Program, request: pytest.FixtureRequest, tmp_path: Path, file: str
) -> None:
    name = read_receipt(read_bundle(make_small_bundle()).entries["receipt.json"]).signing_key_id
    checked, keys = request.getfixturevalue(file), tmp_path / "bpc-keys.json"

    def write_key_set(*names: str) -> int:
        one, other = (
            key_to_json(
                PinnedKey(key, name), status="ACTIVE", created_at=datetime(2027, 2, 18, tzinfo=UTC), retired_at=None
            )
            for name, key in zip(names, (KEY, OTHER_KEY), strict=True)
        )
        keys.write_text(json.dumps({"keys": [one, other]}))
        return bpc.run("verify", checked, "--keys", keys).code

    assert write_key_set(name, "another") == 0
    assert write_key_set("another", name) == 1  # both are the issuer's, and the receipt names the one that did not sign


def test_a_file_without_keys_trusts_nobody_and_is_refused(bpc: Program, bundle: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("# nobody yet\n")

    ended = bpc.run("verify", bundle, "--keys", keys)

    assert (ended.code, ended.out) == (1, "")
    assert "contains no key" in ended.err


@pytest.mark.parametrize(
    "key", ["nonsense", b64encode(bytes(31)).decode(), b64encode(bytes([1] + [0] * 31)).decode(), ISSUER.rstrip("=")]
)
def test_an_invalid_key_is_refused_before_anything_is_checked(bpc: Program, bundle: Path, key: str) -> None:
    ended = bpc.run("verify", bundle, "--key", key)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("VALIDATION_ERROR: --key: the key is ")


def test_a_wrong_line_of_a_file_of_keys_is_named(bpc: Program, bundle: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_bytes(f"{ISSUER}\nno key\n".encode())
    assert "keys.txt, line 2: the key is not base64" in bpc.run("verify", bundle, "--keys", keys).err

    keys.write_bytes(b"\xff\xfe")
    assert "is not a list of keys" in bpc.run("verify", bundle, "--keys", keys).err


def test_a_view_is_recognised_and_prints_what_it_proves(bpc: Program, view: Path) -> None:
    lines = bpc.run_ok("verify", view, "--key", ISSUER).out.splitlines()

    assert [line.split()[:2] for line in lines[: len(VIEW_STEPS)]] == [["ok", name] for name in VIEW_STEPS]
    assert lines[-1] == CLAIM


def test_a_view_needs_a_key(bpc: Program, view: Path) -> None:
    ended = bpc.run("verify", view)

    assert ended.code == 1
    assert "a view carries no key" in ended.out
    assert list_codes(bpc.run("verify", view, "--json")) == {}
    assert ended.out.endswith("the signer was not checked. Give the issuer's key with --key.\n")


def test_it_reads_standard_input(bpc: Program) -> None:
    assert bpc.run("verify", "-", "--unpinned", stdin=make_small_bundle()).code == 0


@pytest.mark.parametrize("content", [b"", b"PK", b"{", b"hello", bytes(1000)])
def test_any_other_file_exits_1_without_a_trace(bpc: Program, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)

    ended = bpc.run("verify", file)

    assert (ended.code, ended.err) == (1, "")
    assert ended.out.startswith("fail  canonical ")


def test_a_missing_file_is_refused(bpc: Program, tmp_path: Path) -> None:
    ended = bpc.run("verify", tmp_path / "missing.zip")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("VALIDATION_ERROR: ")
