"""Status lists and statements: two bits for each version in the form of W3C, signed, and refused in any other form."""

import base64
import gzip
import json
from datetime import timedelta

import pytest

from bpc.core.audit.signing import derive_public_key
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.status.signed_documents import BadStatusDocument
from bpc.core.status.statements import StatusPlace, read_statement
from bpc.core.status.status_list import LIST_ENTRIES, PassportState, pack_states, read_state, read_status_list
from tests.core.sample_passports import OTHER_SEED, SEED, make_small_bundle
from tests.core.status.sample_status import INDEX, LIST_URL, NOW, SUCCESSOR, make_list, make_statement, sign_document

STATES = {0: PassportState.CEASED, 1: PassportState.SUPERSEDED, INDEX: PassportState.REVOKED}


def change_document(data: bytes, *path: str, value: object) -> bytes:
    """The document with one member replaced, signed again."""
    document = json.loads(data)
    document.pop("signature")
    target = document
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value
    return sign_document(canonical_json.encode(document))


def encode_bits(bits: bytes) -> str:
    return "u" + base64.urlsafe_b64encode(gzip.compress(bits)).decode().rstrip("=")


def test_a_list_says_the_state_at_every_index() -> None:
    status_list = read_status_list(make_list(make_small_bundle(), STATES))

    assert {index: status_list.get_state(index) for index in (0, 1, 2, INDEX, INDEX + 1, LIST_ENTRIES - 1)} == {
        **STATES,
        2: PassportState.IN_FORCE,
        INDEX + 1: PassportState.IN_FORCE,
        LIST_ENTRIES - 1: PassportState.IN_FORCE,
    }
    assert status_list.signature.is_by(derive_public_key(SEED))
    assert not status_list.signature.is_by(derive_public_key(OTHER_SEED))
    with pytest.raises(Invalid, match="no index"):
        status_list.get_state(LIST_ENTRIES)


def test_the_first_index_is_in_the_leftmost_bits() -> None:
    """W3C Bitstring Status List 3.1: index 0 is on the left."""
    bits = pack_states([(0, PassportState.REVOKED), (3, PassportState.CEASED)])

    assert (len(bits), bits[0]) == (LIST_ENTRIES // 4, 0b10_00_00_11)
    assert [read_state(bits, index) for index in range(4)] == [2, 0, 0, 3]


def test_a_list_has_the_form_of_a_bitstring_status_list_credential() -> None:
    credential = json.loads(make_list(make_small_bundle()))["credential"]

    assert credential["@context"] == ["https://www.w3.org/ns/credentials/v2"]
    assert credential["type"] == ["VerifiableCredential", "BitstringStatusListCredential"]
    subject = credential["credentialSubject"]
    assert (subject["type"], subject["statusPurpose"], subject["ttl"]) == ("BitstringStatusList", "message", 300_000)
    assert subject["encodedList"].startswith("u")
    assert len(make_list(make_small_bundle())) < 1000  # an empty list compresses to next to nothing


def test_a_list_in_another_form_is_refused() -> None:
    good = make_list(make_small_bundle())
    subject = ("credential", "credentialSubject")
    wrong = [
        b"[]",
        b"{",
        good[:-1],
        good.replace(b'"signature"', b'"signatures"'),
        json.dumps({**json.loads(good), "signature": "AA=="}, sort_keys=True, separators=(",", ":")).encode(),
        change_document(good, "status_list_version", value="BPC-STATUS-LIST-2"),
        change_document(good, "tenant_id", value="nobody"),
        change_document(good, "more", value=1),
        change_document(good, "credential", value=[]),
        change_document(good, "credential", "validUntil", value="2027-06-02T12:00:00.000000Z"),
        change_document(good, "credential", "type", value=["VerifiableCredential"]),
        change_document(good, "credential", "id", value=7),
        change_document(good, *subject, "statusPurpose", value="revocation"),
        change_document(good, *subject, "encodedList", value="u!"),
        change_document(good, *subject, "encodedList", value=encode_bits(bytes(LIST_ENTRIES // 4))[1:]),
        change_document(good, *subject, "encodedList", value=encode_bits(bytes(LIST_ENTRIES // 4 - 1))),
        change_document(good, *subject, "encodedList", value=encode_bits(bytes((1 << 22) + 8))),
        b" " * ((1 << 20) + 1),
    ]
    for data in wrong:
        with pytest.raises(BadStatusDocument):
            read_status_list(data)
    with pytest.raises(BadStatusDocument, match="24 hours"):
        make_list(make_small_bundle(), valid_until=NOW + timedelta(hours=24))


def test_a_statement_says_where_since_when_why_and_by_what() -> None:
    data = make_statement(
        make_small_bundle(), status="superseded", since=NOW, reason="corrected mass", successor=SUCCESSOR
    )

    statement = read_statement(data)

    assert (statement.status, statement.state, statement.since) == ("superseded", PassportState.SUPERSEDED, NOW)
    assert (statement.reason, statement.successor) == ("corrected mass", SUCCESSOR)
    assert statement.place == StatusPlace(LIST_URL, INDEX)
    assert statement.place.base_url == "https://passports.example"
    entry = json.loads(data)["entry"]
    assert (entry["statusListIndex"], entry["statusSize"], entry["type"]) == ("94567", 2, "BitstringStatusListEntry")
    assert entry["statusMessage"][2] == {"message": "revoked", "status": "0x2"}


def test_a_statement_in_another_form_is_refused() -> None:
    good = make_statement(make_small_bundle())
    wrong = [
        change_document(good, "status", value="suspended"),
        change_document(good, "status_version", value="BPC-STATUS-2"),
        change_document(good, "reason", value="x" * 2001),
        change_document(good, "since", value="2027-06-01"),
        change_document(good, "successor", value="SKU-1"),
        change_document(good, "entry", value={}),
        change_document(good, "entry", "statusListIndex", value="007"),
        change_document(good, "entry", "statusSize", value=1),
        change_document(good, "entry", "statusListCredential", value="file:///etc/passwd"),
        change_document(good, "entry", "statusListCredential", value="https://user@host/status/lists/7"),
    ]
    for data in wrong:
        with pytest.raises(BadStatusDocument):
            read_statement(data)
    assert StatusPlace("elsewhere", 1).base_url == ""
