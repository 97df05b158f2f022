"""Entries: sealed ones all look alike and open with their salt only; readable ones name no tenant."""

from datetime import UTC, datetime

import pytest

from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256
from bpc.core.tlog.entries import (
    AUDIT_HEAD,
    ENTRY_KINDS,
    PAYLOAD_MEMBERS,
    READABLE_KINDS,
    BadOpening,
    LogEntry,
    LoggedEvent,
    encode_opening,
    make_entry,
    make_event_entry,
    parse_opening,
    read_readable_entry,
)

AT = datetime(2027, 2, 18, 12, 0, tzinfo=UTC)
SALT = bytes(range(32))
TENANT = "5a0c8a1e-0000-4000-8000-000000000001"
PAYLOAD = {
    "receipt_hash": "ab" * 32,
    "signing_key_id": "key-1",
    "cutoffs": {"events": "2017-02-18T00:00:00.000000Z"},
    "part": 1,
    "run_id": TENANT,
    "key_id": "key-1",
    "public_key": "AAAA",
    "compromised_since": "2027-02-18T00:00:00.000000Z",
    "reason": "of nobody's concern",
}


def make_event(kind: str) -> LoggedEvent:
    return LoggedEvent(
        kind=kind,
        tenant_id=TENANT,
        aggregate_type="PassportVersion",
        aggregate_id=TENANT,
        aggregate_version=2,
        at=AT,
        event_hash=sha256(b"event"),
        payload=PAYLOAD,
    )


SEALED_KINDS = sorted(set(ENTRY_KINDS.values()) - READABLE_KINDS)


@pytest.mark.parametrize("kind", SEALED_KINDS)
def test_sealed_entries_have_one_length_and_show_nothing(kind: str) -> None:
    entry = make_event_entry(make_event(kind), SALT)

    assert len(entry.data) == 33
    assert entry.data[:1] == b"\x01"
    assert entry.data[1:] == sha256(b"BPC-LOG-1\n" + SALT + entry.statement)
    assert read_readable_entry(entry.data) is None


@pytest.mark.parametrize("kind", SEALED_KINDS)
def test_an_opening_gives_the_same_entry_again(kind: str) -> None:
    entry = make_event_entry(make_event(kind), SALT)

    assert parse_opening(encode_opening(entry)) == entry
    statement = entry.read_statement()
    assert statement["kind"] == kind
    assert statement["event_hash"] == sha256(b"event").hex()
    assert "reason" not in statement


def test_another_salt_gives_another_entry() -> None:
    assert (
        make_event_entry(make_event("PASSPORT_ISSUED"), SALT).data
        != make_event_entry(make_event("PASSPORT_ISSUED"), SALT[::-1]).data
    )


@pytest.mark.parametrize("kind", sorted(READABLE_KINDS & set(PAYLOAD_MEMBERS)))
def test_readable_entries_name_the_key_and_no_tenant(kind: str) -> None:
    entry = make_event_entry(make_event(kind), SALT)

    statement = read_readable_entry(entry.data)
    assert statement is not None
    assert sorted(statement) == sorted(["at", "kind", *PAYLOAD_MEMBERS[kind]])
    assert TENANT.encode() not in entry.data
    with pytest.raises(ValueError, match="needs no opening"):
        encode_opening(entry)


def test_a_kind_is_either_sealed_or_readable() -> None:
    with pytest.raises(ValueError, match="KEY_ADDED is readable"):
        make_entry("KEY_ADDED", AT, {}, salt=SALT)
    with pytest.raises(ValueError, match="AUDIT_HEAD is sealed"):
        make_entry(AUDIT_HEAD, AT, {}, salt=None)


OPENING = encode_opening(make_event_entry(make_event("PASSPORT_ISSUED"), SALT))


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"{}", OPENING + b"\n", OPENING.replace(b"BPC-LOG-1", b"BPC-LOG-2")),
        *(OPENING.replace(b'"kind"', b'"kine"'), OPENING.replace(SALT.hex().encode(), SALT.hex().upper().encode())),
        *(OPENING.replace(SALT.hex().encode(), b"00"), OPENING.replace(SALT.hex().encode(), b"zz")),
        canonical_json.encode({"opening_version": "BPC-LOG-1", "salt": SALT.hex(), "statement": []}),
    ],
)
def test_what_is_not_an_opening_is_refused(data: bytes) -> None:
    with pytest.raises(BadOpening):
        parse_opening(data)


@pytest.mark.parametrize("data", [b"", b"\x01short", b"\x03" + bytes(32), b"\x02[]", b"\x02{ }"])
def test_what_is_not_an_entry_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid):
        read_readable_entry(data)


def test_a_statement_has_a_limit() -> None:
    with pytest.raises(BadOpening, match="60,000"):
        LogEntry(statement=b"a" * 60_001, salt=SALT)
