"""Step `status`: in force, superseded, revoked, ceased or not asked; and what is not the issuer's word is refused."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from bpc.core.audit.signing import PinnedKey
from bpc.core.exports.disclosure import make_view
from bpc.core.formats import canonical_json
from bpc.core.passport.bundle import Bundle, read_bundle, read_manifest, write_bundle
from bpc.core.passport.view_envelope import open_view, wrap_view
from bpc.core.status.statements import StatusPlace
from bpc.core.status.status_list import PassportState
from bpc.core.verify import VerificationReport
from bpc.core.verify.bundle import verify_bundle, verify_bundle_or_view, verify_view
from bpc.core.verify.status_step import StatusQuestion
from tests.core.sample_passports import KEY, OTHER_KEY, OTHER_SEED, make_small_bundle
from tests.core.status.sample_status import (
    INDEX,
    LIST_URL,
    NOW,
    REVOKED_AT,
    SUCCESSOR,
    make_list,
    make_statement,
    rebuild_bundle,
)
from tests.core.verify.forging import get_step
from tests.core.verify.test_log_step import log_bundle, make_policy

PLAIN = make_small_bundle()
BOUND = rebuild_bundle(PLAIN, status=make_statement(PLAIN))
REVOKED_LIST = make_list(PLAIN, {INDEX: PassportState.REVOKED})
REVOCATION = make_statement(PLAIN, status="revoked", since=REVOKED_AT, reason="recalled")


def ask(*documents: bytes, data: bytes = BOUND, require: bool = False) -> VerificationReport:
    question = StatusQuestion(documents=documents, now=NOW)
    return verify_bundle_or_view(data, pins=[KEY], question=question, require_status=require)


def test_each_verdict_has_its_words_and_only_revoked_fails() -> None:
    table: Sequence[tuple[tuple[bytes, ...], str, bool, str]] = [
        ((make_list(PLAIN),), "in_force", True, "in force, as the issuer says at 2027-06-01T11:00:00.000000Z"),
        (
            (make_list(PLAIN, {INDEX: PassportState.SUPERSEDED}),),
            "superseded",
            True,
            "superseded; the list does not say since when",
        ),
        (
            (
                make_list(PLAIN, {INDEX: PassportState.SUPERSEDED}),
                make_statement(PLAIN, status="superseded", since=REVOKED_AT, successor=SUCCESSOR),
            ),
            "superseded",
            True,
            f"superseded by {SUCCESSOR} since 2027-05-01T00:00:00.000000Z",
        ),
        ((make_list(PLAIN, {INDEX: PassportState.CEASED}),), "ceased", True, "ceased; the list"),
        ((REVOKED_LIST,), "revoked", False, "it is revoked; the list does not say"),
        ((REVOKED_LIST, REVOCATION), "revoked", False, "it is revoked since 2027-05-01T00:00:00.000000Z: recalled"),
        ((REVOCATION,), "revoked", False, "it is revoked since"),
        ((make_list(PLAIN), REVOCATION), "revoked", False, "it is revoked since"),
        ((), "not_asked", True, f"not asked: no status list was given; it is at {LIST_URL}, index {INDEX}"),
        ((make_statement(PLAIN),), "not_asked", True, "not asked: the list was not given"),
    ]
    for documents, verdict, ok, says in table:
        report = ask(*documents)

        assert (report.status.name, report.ok) == (verdict, ok), says
        assert get_step(report, "status").detail.startswith(says)
        assert ask(*documents, require=True).ok == (ok and verdict != "not_asked")


def test_an_old_list_tells_what_is_final_and_not_that_it_is_in_force() -> None:
    times: dict[str, Any] = {"valid_from": NOW - timedelta(days=9), "valid_until": NOW - timedelta(days=8)}
    early: dict[str, Any] = {"valid_from": NOW + timedelta(hours=1), "valid_until": NOW + timedelta(hours=2)}

    assert ask(make_list(PLAIN, **times)).status.name == "not_asked"
    assert "get a newer one" in get_step(ask(make_list(PLAIN, **times)), "status").detail
    assert ask(make_list(PLAIN, {INDEX: PassportState.REVOKED}, **times)).status.name == "revoked"
    assert "later than now" in get_step(ask(make_list(PLAIN, **early)), "status").detail


def test_what_is_not_the_word_of_this_issuer_on_this_passport_fails() -> None:
    elsewhere = f"{LIST_URL[:-1]}8"
    table = {
        "of another tenant": make_list(PLAIN, tenant_id=UUID(int=1)),
        "did not sign it": make_list(PLAIN, seed=OTHER_SEED),
        "in another list": make_list(PLAIN, url=elsewhere),
        "about another passport": make_statement(PLAIN, passport_version_id=SUCCESSOR),
        "a key you trust of this name": make_statement(PLAIN, seed=OTHER_SEED),
        "different places": make_statement(PLAIN, place=StatusPlace(elsewhere, INDEX)),
        "is not canonical": b"{ }",
    }
    for says, document in table.items():
        report = ask(document)

        assert not report.ok
        assert says in get_step(report, "status").detail


def test_the_index_counts_only_under_the_issuers_signature() -> None:
    """Whoever holds a revoked passport cannot point it at the index of another one."""
    moved = make_statement(PLAIN, place=StatusPlace(LIST_URL, INDEX + 1))
    unsigned = json.loads(make_statement(PLAIN))
    unsigned["entry"] = StatusPlace(LIST_URL, INDEX + 1).to_entry()
    edited = canonical_json.encode(unsigned)

    forged = ask(REVOKED_LIST, data=rebuild_bundle(PLAIN, status=make_statement(PLAIN, seed=OTHER_SEED)))
    altered = ask(REVOKED_LIST, data=rebuild_bundle(PLAIN, status=edited))
    foreign = ask(REVOKED_LIST, data=rebuild_bundle(PLAIN, status=make_statement(PLAIN, receipt_hash=bytes(32))))

    assert [report.status.name for report in (forged, altered)] == ["not_asked", "not_asked"]
    assert "is not one you gave" in get_step(altered, "status").detail
    assert "about another passport" in get_step(foreign, "status").detail
    assert (
        ask(REVOKED_LIST, data=rebuild_bundle(PLAIN, status=moved)).status.name == "in_force"
    )  # the issuer's own word


def test_a_bundle_without_a_statement_takes_one_from_a_file() -> None:
    assert ask(REVOKED_LIST, make_statement(PLAIN), data=PLAIN).status.name == "revoked"
    assert "does not say which list" in get_step(ask(REVOKED_LIST, data=PLAIN), "status").detail


def test_without_pinned_keys_the_key_of_the_passport_must_have_signed() -> None:
    good = verify_bundle(BOUND, question=StatusQuestion(documents=(make_list(PLAIN),), now=NOW))
    other = verify_bundle(BOUND, question=StatusQuestion(documents=(make_list(PLAIN, seed=OTHER_SEED),), now=NOW))
    named = verify_bundle(
        BOUND,
        pins=[PinnedKey(KEY, "issuer-2027"), PinnedKey(OTHER_KEY, "issuer-2028")],
        question=StatusQuestion(documents=(make_list(PLAIN, seed=OTHER_SEED, signing_key_id="issuer-2028"),), now=NOW),
    )

    assert (good.status.name, good.issuer) == ("in_force", "unpinned")
    assert "the key of this passport of this name did not sign it" in get_step(other, "status").detail
    assert named.status.name == "in_force"  # the issuer has changed its key since


def test_the_manifest_and_the_statement_belong_together() -> None:
    entries = dict(read_bundle(BOUND).entries)
    assert read_manifest(entries["manifest.json"]).bundle_version == "BPC-BUNDLE-2"
    entries["manifest.json"] = read_bundle(PLAIN)["manifest.json"]

    report = verify_bundle(write_bundle(Bundle(entries)))
    broken = verify_bundle(write_bundle(Bundle({**read_bundle(BOUND).entries, "status.json": b"{}"})))

    assert "says BPC-BUNDLE-1, and the bundle has status.json" in get_step(report, "canonical").detail
    assert "status.json" in get_step(broken, "canonical").detail


def test_an_envelope_carries_the_unchanged_view_with_proof_and_status() -> None:
    view, logged = make_view(read_bundle(PLAIN), "public"), log_bundle()
    proof = read_bundle(logged)["passport.tlog-proof"]
    data = wrap_view(view, log_proof=proof, statement=make_statement(PLAIN))
    question = StatusQuestion(documents=(REVOKED_LIST, REVOCATION), now=NOW)

    good = verify_view(data, pins=[KEY], policy=make_policy(), require_log=True)
    revoked = verify_view(data, pins=[KEY], question=question)

    assert open_view(data).view == view
    assert wrap_view(view, log_proof=None, statement=None) == view
    assert good.ok
    assert "seen by 2 witnesses" in get_step(good, "log").detail
    assert (revoked.ok, revoked.status.name) == (False, "revoked")
    plain = verify_view(view, pins=[KEY], require_log=True, require_status=True)
    assert plain.failed_steps == ("log", "status")


def test_a_broken_envelope_is_refused() -> None:
    view = make_view(read_bundle(PLAIN), "public")
    data = wrap_view(view, log_proof=None, statement=make_statement(PLAIN))
    wrong = [
        data.replace(b'{"log_proof"', b'{ "log_proof"'),
        data.replace(b'"log_proof":null', b'"log_proof":7'),
        data.replace(b'"log_proof":null', b'"log_proof":"x"'),
        data.replace(b'"log_proof":null', b'"more":null'),
        data.replace(b'"status_version":"BPC-STATUS-1"', b'"status_version":"BPC-STATUS-9"'),
        data.replace(b'"audience":"public"', b'"audience":"nobody"'),
    ]
    for forged in wrong:
        report = verify_view(forged, pins=[KEY])

        assert not report.ok
        assert not get_step(report, "canonical").ok
