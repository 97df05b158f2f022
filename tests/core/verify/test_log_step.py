"""Step `log`: a passport is in the log of a pinned policy, or the report says plainly that nobody checked."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from bpc.core.formats.hashes import to_hex
from bpc.core.passport.bundle import Bundle, add_attachments, build_bundle, read_bundle, read_manifest, write_bundle
from bpc.core.passport.receipt import read_receipt
from bpc.core.tlog.cosignatures import make_cosignature
from bpc.core.tlog.entries import encode_opening, make_entry
from bpc.core.tlog.policy import LogPolicy, parse_policy
from bpc.core.tlog.proofs import LogProof
from bpc.core.verify.bundle import verify_bundle
from tests.core.sample_passports import make_small_bundle
from tests.core.tlog.sample_log import make_ed25519_witness, make_log, make_ml_dsa_witness
from tests.core.verify.forging import get_step

WITNESSES = (make_ed25519_witness(), make_ml_dsa_witness())
SALT = bytes(range(32))
ISSUED = datetime(2027, 2, 18, 12, 0, tzinfo=UTC)


def make_statement(bundle: Bundle) -> dict[str, object]:
    receipt = read_receipt(bundle["receipt.json"])
    return {
        "aggregate_id": str(receipt.passport_version_id),
        "aggregate_type": "PassportVersion",
        "aggregate_version": 2,
        "event_hash": "ab" * 32,
        "receipt_hash": to_hex(receipt.hash()),
        "signing_key_id": receipt.signing_key_id,
        "tenant_id": str(receipt.tenant_id),
    }


def log_bundle(
    *, kind: str = "PASSPORT_ISSUED", change: Mapping[str, object] | None = None, witnesses: int = 2
) -> bytes:
    """The small bundle with a proof that it is the 300th entry of a log."""
    bundle = read_bundle(make_small_bundle())
    entry = make_entry(kind, ISSUED, make_statement(bundle) | dict(change or {}), salt=SALT)
    log = make_log(299)
    log.append([entry.data, b"\x01" + bytes(32)])
    note = log.sign_checkpoint()
    cosignatures = [
        make_cosignature(note.text, key, sign, seconds=int(ISSUED.timestamp()) + 5)
        for key, sign in WITNESSES[:witnesses]
    ]
    proof = LogProof(
        index=299,
        hashes=log.prove_entry(299),
        checkpoint=note.add(cosignatures).encode(),
        extra=encode_opening(entry),
    )
    return write_bundle(add_log_proof(bundle, proof.encode()))


def add_log_proof(bundle: Bundle, proof: bytes) -> Bundle:
    return build_bundle(
        payload=bundle["payload.json"],
        proof=bundle["proof.json"],
        receipt=bundle["receipt.json"],
        snapshot=bundle["snapshot.json"],
        facts=bundle["facts.jsonl"],
        rules=bundle["rules.bpc"],
        tests=bundle["tests.bpc"],
        public_key=read_manifest(bundle["manifest.json"]).public_key,
        qr_png=bundle["qr.png"],
        log_proof=proof,
    )


def make_policy(quorum: str = "both") -> LogPolicy:
    lines = [
        f"log {make_log(0).signer.verifier}",
        *(f"witness w{number} {key}" for number, (key, _) in enumerate(WITNESSES)),
        "group both all w0 w1",
        f"quorum {quorum}",
    ]
    return parse_policy("\n".join(lines).encode())


def test_a_logged_passport_was_seen_by_witnesses() -> None:
    report = verify_bundle(log_bundle(), policy=make_policy(), require_log=True)

    assert report.ok
    says = "entry 299 of `log.example/passports`; seen by 2 witnesses at 2027-02-18T12:00:05.000000Z"
    assert get_step(report, "log").detail == says
    assert read_manifest(read_bundle(log_bundle())["manifest.json"]).bundle_version == "BPC-BUNDLE-2"


def test_a_passport_from_before_the_log_existed_by_a_time() -> None:
    report = verify_bundle(log_bundle(kind="PASSPORT_EXISTED", witnesses=1), policy=make_policy("w0"))

    assert "says that it existed by 2027-02-18T12:00:00.000000Z; seen by 1 witness at" in get_step(report, "log").detail


def test_a_policy_without_witnesses_says_so() -> None:
    report = verify_bundle(log_bundle(witnesses=0), policy=make_policy("none"))

    assert get_step(report, "log").detail.endswith("your policy asks for no witnesses")


@pytest.mark.parametrize("is_logged", [True, False])
def test_without_a_policy_or_a_proof_it_says_plainly_that_nobody_checked(is_logged: bool) -> None:
    data = log_bundle() if is_logged else make_small_bundle()

    report = verify_bundle(data)

    assert report.ok
    assert get_step(report, "log").detail.startswith("not checked: ")
    required = verify_bundle(data, require_log=True)
    assert not required.ok
    assert "and you require it" in get_step(required, "log").detail


def test_too_few_witnesses_or_another_log_fail() -> None:
    few = verify_bundle(log_bundle(witnesses=1), policy=make_policy())
    other = verify_bundle(log_bundle(), policy=parse_policy(b"quorum none"))

    assert not few.ok
    assert "below its quorum" in get_step(few, "log").detail
    assert not other.ok
    assert "which your policy does not name" in get_step(other, "log").detail


@pytest.mark.parametrize(
    "change",
    [
        {"receipt_hash": "cd" * 32},
        {"aggregate_id": "00000000-0000-4000-8000-000000000000"},
        {"signing_key_id": "other"},
        {"tenant_id": "00000000-0000-4000-8000-000000000000"},
    ],
)
def test_the_entry_of_another_passport_fails_even_without_a_policy(change: dict[str, object]) -> None:
    report = verify_bundle(log_bundle(change=change))

    assert not report.ok
    assert f"its `{next(iter(change))}` is not the receipt's" in get_step(report, "log").detail


def test_an_entry_of_another_kind_fails() -> None:
    report = verify_bundle(log_bundle(kind="PASSPORT_REVOKED"))

    assert "says PASSPORT_REVOKED, not that a passport was issued" in get_step(report, "log").detail


def test_a_changed_opening_fails() -> None:
    bundle = read_bundle(log_bundle())
    proof = bundle["passport.tlog-proof"]
    for forged in (proof[:-1], proof.replace(b"extra ", b"extra A"), proof.replace(b"index 299", b"index 298")):
        report = verify_bundle(
            write_bundle(Bundle({**bundle.entries, "passport.tlog-proof": forged})), policy=make_policy()
        )

        assert not report.ok
        assert {"canonical", "log"} & set(report.failed_steps)


def test_the_manifest_and_the_proof_belong_together() -> None:
    logged, plain = read_bundle(log_bundle()), read_bundle(make_small_bundle())
    without = {name: content for name, content in logged.entries.items() if name != "passport.tlog-proof"}
    with_proof = {**plain.entries, "passport.tlog-proof": logged["passport.tlog-proof"]}

    assert (
        "says BPC-BUNDLE-2, and the bundle has no"
        in get_step(verify_bundle(write_bundle(Bundle(without))), "canonical").detail
    )
    assert (
        "says BPC-BUNDLE-1, and the bundle has passport"
        in get_step(verify_bundle(write_bundle(Bundle(with_proof))), "canonical").detail
    )


def test_a_logged_bundle_takes_attachments() -> None:
    data = log_bundle()

    assert write_bundle(add_attachments(read_bundle(data), {})) == data
