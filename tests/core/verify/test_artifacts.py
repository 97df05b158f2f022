"""Other bytes that say the same, and forged receipts, keys, QR codes and audit chains."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from bpc.core.audit.events import EMPTY_CHAIN, AuditEvent, EventStream, NewEvent
from bpc.core.audit.signing import PinnedKey, to_base64
from bpc.core.exports.disclosure import make_view
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import ActorId, AggregateId
from bpc.core.passport.bundle import Bundle, read_bundle, write_bundle
from bpc.core.passport.qr import draw_qr_png
from bpc.core.passport.receipt import read_receipt
from bpc.core.verify.bundle import verify_bundle, verify_view
from tests.core.sample_passports import (
    ISSUED_AT,
    KEY,
    OTHER_KEY,
    OTHER_SEED,
    BundleDraft,
    encode_event_line,
    forge_bundle,
    make_audited_bundle,
    make_compile_input,
    make_event_chain,
    make_rich_bundle,
    make_small_bundle,
)
from tests.core.verify.forging import assert_detected, get_step, list_failed_steps

# Bytes that say the same


def replace_entry(data: bytes, name: str, content: bytes) -> bytes:
    return write_bundle(Bundle({**read_bundle(data).entries, name: content}))


@pytest.mark.parametrize("name", ["manifest.json", "payload.json", "proof.json", "receipt.json", "snapshot.json"])
@pytest.mark.parametrize(
    "otherwise",
    [
        lambda text: text.replace(b":", b": ", 1),
        lambda text: text + b"\n",
        lambda text: json.dumps(dict(reversed(json.loads(text).items())), separators=(",", ":")).encode(),
        lambda text: text.replace(b"BPC", b"\\u0042PC", 1),
        lambda text: text[:-1] + b',"zzz":1,"zzz":1}',
    ],
    ids=["blank", "line end", "order", "escape", "doubled"],
)
def test_the_same_json_in_other_bytes_is_found(name: str, otherwise: Callable[[bytes], bytes]) -> None:
    entry = read_bundle(make_small_bundle()).entries[name]
    changed = otherwise(entry)
    assert changed != entry

    report = verify_bundle(replace_entry(make_small_bundle(), name, changed))

    assert "canonical" in list_failed_steps(report)


@pytest.mark.parametrize(
    ("entry", "change", "says"),
    [
        ("receipt", lambda receipt: receipt | {"payload_hash": receipt["payload_hash"].upper()}, "`payload_hash`"),
        ("receipt", lambda receipt: receipt | {"tenant_id": receipt["tenant_id"].replace("-", "")}, "`tenant_id`"),
        ("receipt", lambda receipt: receipt | {"issued_at": "2027-02-18T09:30:00Z"}, "`issued_at`"),
        ("receipt", lambda receipt: receipt | {"signature": receipt["signature"].rstrip("=")}, "`signature`"),
        ("receipt", lambda receipt: receipt | {"signature": receipt["signature"][:-3] + "B=="}, "`signature`"),
        ("receipt", lambda receipt: {k: v for k, v in receipt.items() if k != "signature"}, "has no `signature`"),
        ("receipt", lambda receipt: receipt | {"note": "trust me"}, "`note`"),
        ("receipt", lambda receipt: receipt | {"signature_alg": "none"}, "`signature_alg`"),
        ("manifest", lambda manifest: manifest | {"public_key": manifest["public_key"].rstrip("=")}, "`public_key`"),
        ("manifest", lambda manifest: manifest | {"note": "trust me"}, "manifest"),
        ("manifest", lambda manifest: manifest | {"bundle_version": "BPC-BUNDLE-2"}, "the manifest says BPC-BUNDLE-2"),
        ("payload", lambda payload: payload | {"note": "trust me"}, "payload.json has an unknown member `note`"),
        ("payload", lambda payload: payload | {"salt": payload["salt"].upper()}, "`salt` is not 32 lower-case"),
        ("payload", lambda payload: payload | {"compliance": [{}]}, "`compliance` is not"),
        ("payload", lambda payload: payload | {"access": {"a": ["public", "authority"]}}, "`access` is not"),
        ("snapshot", lambda snapshot: snapshot | {"snapshot_version": 1}, "`snapshot_version` is not"),
    ],
)
def test_another_spelling_or_member_is_found(entry: str, change: Callable[[Any], Any], says: str) -> None:
    value = json.loads(read_bundle(make_small_bundle()).entries[f"{entry}.json"])

    report = verify_bundle(replace_entry(make_small_bundle(), f"{entry}.json", canonical_json.encode(change(value))))

    assert "canonical" in list_failed_steps(report)
    assert says in get_step(report, "canonical").detail


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda lines: lines.removesuffix(b"\n"), "does not end with a line feed"),
        (lambda lines: lines + b"\n", "facts.jsonl line 4: "),
        (lambda lines: lines.replace(b"\n", b"\r\n", 1), "facts.jsonl line 1: "),
        (lambda lines: lines.replace(b'"schema_version":1', b'"schema_version":0', 1), "facts.jsonl line 1: "),
        (lambda lines: lines.replace(b'"schema_version":1', b'"schema_version":true', 1), "facts.jsonl line 1: "),
        (lambda lines: lines.replace(b'"schema_version":1', b'"schema_version":1,"z":1', 1), "facts.jsonl line 1: "),
    ],
)
def test_facts_in_other_bytes_are_found(change: Callable[[bytes], bytes], says: str) -> None:
    facts = read_bundle(make_small_bundle()).entries["facts.jsonl"]

    report = verify_bundle(replace_entry(make_small_bundle(), "facts.jsonl", change(facts)))

    assert "canonical" in list_failed_steps(report)
    assert says in get_step(report, "canonical").detail


@pytest.mark.parametrize(
    ("count", "more"),
    [(1, ""), (5, ""), (6, "; and 1 more"), (8, "; and 3 more")],
)
def test_what_is_wrong_is_listed_up_to_a_limit(count: int, more: str) -> None:
    names = ["payload.json", "snapshot.json", "manifest.json", "receipt.json", "proof.json", "facts.jsonl"]
    broken = dict.fromkeys([*names, "events.jsonl", "qr.txt"][:count], b"\xff")

    step_result = get_step(
        verify_bundle(write_bundle(Bundle({**read_bundle(make_audited_bundle()).entries, **broken}))), "canonical"
    )

    listed_problems, *more_text = step_result.detail.partition("; and ")
    assert len(listed_problems.split("; ")) == min(count, 5)
    assert "".join(more_text) == more
    assert step_result.detail.startswith("payload.json: ")


# Receipt, key, QR code, events


def test_another_key_is_found_by_whoever_knows_the_right_one() -> None:
    by_another = forge_bundle(make_small_bundle(), lambda draft: None, seed=OTHER_SEED)

    assert_detected(verify_bundle(by_another, pins=[KEY]), "signature", f"{to_base64(OTHER_KEY)} is not one of those")
    assert verify_bundle(by_another, pins=[KEY]).issuer == "unpinned"
    unpinned = verify_bundle(by_another)
    assert (unpinned.ok, unpinned.issuer) == (True, "unpinned")
    assert "the issuer was not checked" in get_step(unpinned, "signature").detail


def test_a_key_that_is_pinned_by_name_signs_under_that_name_only() -> None:
    name = read_receipt(read_bundle(make_small_bundle()).entries["receipt.json"]).signing_key_id
    view = make_view(read_bundle(make_small_bundle()), "authority")
    right, other = PinnedKey(KEY, name), PinnedKey(OTHER_KEY, "another")
    swapped = [PinnedKey(KEY, "another"), PinnedKey(OTHER_KEY, name)]

    assert verify_bundle(make_small_bundle(), pins=[other, right]).issuer == "pinned"
    assert verify_view(view, pins=[other, right]).ok
    says = f"the receipt names the key `{name}`, but you trust this key as `another`"
    assert_detected(verify_bundle(make_small_bundle(), pins=swapped), "signature", says)
    assert_detected(verify_view(view, pins=swapped), "signature", says)
    assert verify_bundle(make_small_bundle(), pins=[*swapped, KEY]).ok  # somebody trusts it, whatever it is called
    assert verify_view(view, pins=[*swapped, right]).ok


def test_the_right_key_in_the_manifest_does_not_make_a_signature() -> None:
    report = verify_bundle(
        forge_bundle(make_small_bundle(), lambda draft: None, seed=OTHER_SEED, keep={"manifest"}), pins=[KEY]
    )

    assert_detected(report, "signature", "the signature does not belong to this content and key")


def test_a_key_under_which_anybody_can_sign_is_found() -> None:
    def change(draft: BundleDraft) -> None:
        draft.manifest["public_key"] = to_base64(bytes([1] + [0] * 31))
        draft.receipt["signature"] = to_base64(bytes([1] + [0] * 63))

    report = verify_bundle(forge_bundle(make_small_bundle(), change, keep={"signature", "manifest"}))

    assert_detected(report, "signature", "of small order")


def test_another_key_name_in_the_manifest_is_found() -> None:
    def change(draft: BundleDraft) -> None:
        draft.manifest["signing_key_id"] = "issuer-2028"

    assert_detected(
        verify_bundle(forge_bundle(make_small_bundle(), change)),
        "signature",
        "the manifest names the key `issuer-2028`",
    )


@pytest.mark.parametrize("member", ["passport_id", "passport_version_id", "issued_at", "battery_product_id"])
def test_a_receipt_of_another_passport_is_found(member: str) -> None:
    def change(draft: BundleDraft) -> None:
        other = "2027-02-18T09:30:00.000001Z" if member == "issued_at" else "99999999-0000-4000-8000-000000000009"
        draft.receipt[member] = other

    report = verify_bundle(forge_bundle(make_small_bundle(), change))

    assert "receipt_hash" in list_failed_steps(report)
    assert f"payload.json has the {member}" in get_step(report, "receipt_hash").detail


def test_a_manifest_of_another_passport_is_found() -> None:
    def change(draft: BundleDraft) -> None:
        draft.manifest["passport_version_id"] = "99999999-0000-4000-8000-000000000009"

    assert_detected(
        verify_bundle(forge_bundle(make_small_bundle(), change)),
        "receipt_hash",
        "manifest.json is of another passport version",
    )


def test_a_receipt_signed_anew_is_not_the_one_on_the_battery() -> None:
    def change(draft: BundleDraft) -> None:
        draft.receipt["compiler_build_id"] = "bpc-other"

    report = verify_bundle(forge_bundle(make_small_bundle(), change, keep={"qr"}))

    assert list_failed_steps(report) == ["receipt_hash", "qr"]


def test_other_rules_than_those_signed_are_found() -> None:
    def change(draft: BundleDraft) -> None:
        draft.entries["rules.bpc"] = draft.entries["rules.bpc"].replace(b"toDec(6, cap)", b"toDec(6, cap + 1)")

    assert_detected(
        verify_bundle(forge_bundle(make_small_bundle(), change)), "proof_steps", "field `battery.capacity_kwh`"
    )
    assert list_failed_steps(verify_bundle(forge_bundle(make_small_bundle(), change, keep={"receipt"}))) == [
        "rules",
        "proof_steps",
    ]


def test_other_tests_than_those_signed_are_found() -> None:
    def change(draft: BundleDraft) -> None:
        draft.entries["tests.bpc"] = b""

    report = verify_bundle(forge_bundle(make_small_bundle(), change, keep={"receipt"}))

    assert_detected(report, "rules", "tests.bpc has the hash")


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (b"field x: Int = ;", "rules.bpc is not a rule package without errors"),
        (b"\xff\xfe", "rules.bpc is not a rule package without errors"),
        (b"field x: Dec(18) = 1 / 0;", "field `x` (rules.bpc:1:"),
        (b'field x: Int = assert(false, "E9", "never"); 1;', "the rules give no value: E9: never"),
        (b"", "is in the proof and not in the rules"),
    ],
)
def test_rules_that_give_no_passport_are_found(rules: bytes, says: str) -> None:
    def change(draft: BundleDraft) -> None:
        draft.entries["rules.bpc"] = rules

    assert_detected(verify_bundle(forge_bundle(make_small_bundle(), change)), "proof_steps", says)


def test_the_snapshot_of_another_id_is_found() -> None:
    def change(draft: BundleDraft) -> None:
        draft.snapshot["snapshot_id"] = "99999999-0000-4000-8000-000000000009"

    assert_detected(
        verify_bundle(forge_bundle(make_small_bundle(), change)), "snapshot", "another snapshot than the receipt names"
    )


def test_the_qr_code_of_another_passport_is_found() -> None:
    text = read_bundle(make_rich_bundle()).entries["qr.txt"]

    report = verify_bundle(replace_entry(make_small_bundle(), "qr.txt", text))
    assert list_failed_steps(report) == ["receipt_hash", "qr"]

    report = verify_bundle(replace_entry(make_small_bundle(), "qr.png", draw_qr_png(text.decode())))
    assert_detected(report, "qr", "pixel row")


def test_a_broken_qr_text_is_blamed_on_the_qr_code() -> None:
    for text in (b"", b"BPC1|", b"\xff", read_bundle(make_small_bundle()).entries["qr.txt"] + b"\n"):
        report = verify_bundle(replace_entry(make_small_bundle(), "qr.txt", text))
        assert set(list_failed_steps(report)) <= {"canonical", "qr"}
        assert not report.ok


AUDITED = make_compile_input(b"field answer @public: Int = 6 * 7;\n", [])


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "events.jsonl holds no event"),
        ([1, 2], "event 2: version 1 is missing before it"),
        ([0, 2], "event 3: version 2 is missing before it"),
        ([1, 0, 2], "is missing before it"),
        ([0, 0], "version 2 is missing before it"),
    ],
)
def test_a_chain_with_gaps_is_found(lines: list[int], says: str) -> None:
    events = make_event_chain(AUDITED)

    report = verify_bundle(
        replace_entry(make_audited_bundle(), "events.jsonl", b"".join(encode_event_line(events[at]) for at in lines))
    )

    assert_detected(report, "events", says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda line: line.replace(b'"number":1', b'"number":7'), "event 2: its payload does not have the hash"),
        (lambda line: line.replace(b"STEP_1", b"STEP_9"), "event 2: its members do not give its event hash"),
        (lambda line: line.replace(b'"tenant_id":"1', b'"tenant_id":"2'), "events.jsonl line 2 belongs to"),
        (lambda line: line.replace(b"PassportVersion", b"Passport"), "events.jsonl line 2 belongs to"),
        (lambda line: line.replace(b'"actor_id":null,', b""), "events.jsonl line 2 has no `actor_id`"),
        (lambda line: line.replace(b'"actor_id":null', b'"actor_id":"me"'), "`actor_id` is not"),
        (
            lambda line: line.replace(b'"aggregate_version":2', b'"aggregate_version":true'),
            "`aggregate_version` is not",
        ),
        (lambda line: b"[]\n", "events.jsonl line 2 is not an object"),
    ],
)
def test_a_changed_event_is_found(change: Callable[[bytes], bytes], says: str) -> None:
    lines = [encode_event_line(event) for event in make_event_chain(AUDITED)]
    lines[1] = change(lines[1])

    report = verify_bundle(replace_entry(make_audited_bundle(), "events.jsonl", b"".join(lines)))

    assert_detected(report, "events", says)


def test_a_chain_with_somebody_acting_holds() -> None:
    actor = ActorId(UUID("88888888-0000-4000-8000-000000000008"))
    stream = EventStream(AUDITED.tenant_id, "PassportVersion", AggregateId(AUDITED.passport_version_id))
    event_body = NewEvent(event_type="ISSUED", payload={}, actor_id=actor, occurred_at=ISSUED_AT)

    line = encode_event_line(AuditEvent.chain_after(EMPTY_CHAIN, stream, event_body))

    step_result = get_step(verify_bundle(replace_entry(make_audited_bundle(), "events.jsonl", line)), "events")
    says = "1 event, each linked to the one before; no log entry vouches for them: do not take them for history"
    assert step_result[:3] == ("events", True, says)


def test_the_chain_of_another_passport_is_found() -> None:
    lines = b"".join(map(encode_event_line, make_event_chain(AUDITED)))
    other = {**read_bundle(make_small_bundle()).entries, "events.jsonl": lines.replace(b"44444444", b"44444445")}

    assert_detected(
        verify_bundle(write_bundle(Bundle(other))), "events", "events.jsonl line 1 belongs to PassportVersion"
    )
