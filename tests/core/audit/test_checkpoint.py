"""Checkpoints, BPC-CHECKPOINT-1: no other file passes for one, and what was lost since is named."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import permutations
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.canon import decode, encode
from bpc.core.checkpoint import BadCheckpoint, Checkpoint, missing, read, write
from bpc.core.digest import Digest, sha256
from bpc.core.errors import CODES, Invalid
from bpc.core.events import Fault, Head, Stream
from bpc.core.ids import AggregateId, TenantId
from bpc.core.signing import Seed, SignatureInvalid, public_key_of, sign, to_base64

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "checkpoint.md"

SEED = Seed(bytes(range(32)))
KEY = public_key_of(SEED)
TENANT = TenantId(UUID("9f767c45-1111-4111-8111-b791bde5c099"))
NOON = datetime(2027, 2, 18, 12, tzinfo=UTC)


def stream(number: int, kind: str = "Document") -> Stream:
    return Stream(TENANT, kind, AggregateId(UUID(int=number)))


def digest(name: str) -> Digest:
    return sha256(name.encode())


ONE, TWO = stream(1), stream(2, "Actor")
TAKEN = Checkpoint(
    tenant_id=TENANT, taken_at=NOON, heads={ONE: Head(3, digest("one 3")), TWO: Head(1, digest("two 1"))}
)
FILE = write(TAKEN, seed=SEED, signing_key_id="key-1")
MALFORMED = "the checkpoint is not of the form BPC-CHECKPOINT-1"

repeatable = settings(derandomize=True, max_examples=200)


def refusal(data: bytes) -> Invalid:
    with pytest.raises(Invalid) as refused:
        read(data, key=KEY)
    return refused.value


# Writing and reading

streams = st.builds(Stream, st.just(TENANT), st.text(st.characters(exclude_categories=["Cs"]), max_size=4), st.uuids())
heads = st.dictionaries(
    streams, st.builds(Head, st.integers(1, 2**63 - 1), st.binary(min_size=32, max_size=32).map(Digest)), max_size=5
)


@repeatable
@given(heads, st.datetimes(timezones=st.just(UTC)))
def test_a_checkpoint_reads_as_it_was_written(heads: dict[Stream, Head], at: datetime) -> None:
    taken = Checkpoint(tenant_id=TENANT, taken_at=at, heads=heads)

    written = write(taken, seed=SEED, signing_key_id="key-1")

    assert read(written, key=KEY) == taken
    assert read(written + b"\n", key=KEY) == taken
    assert encode(decode(written)) == written


def test_the_order_chains_are_found_in_does_not_matter() -> None:
    found = {
        stream(2, "B"): Head(1, digest("a")),
        stream(1, "B"): Head(2, digest("b")),
        stream(3, "A"): Head(3, digest("c")),
        stream(0, "é"): Head(4, digest("d")),
    }

    written = {
        write(Checkpoint(tenant_id=TENANT, taken_at=NOON, heads=dict(order)), seed=SEED, signing_key_id="key-1")
        for order in permutations(found.items())
    }

    (only,) = written
    assert [(entry["aggregate_type"], entry["aggregate_id"][-1]) for entry in json.loads(only)["heads"]] == [
        ("A", "3"),
        ("B", "1"),
        ("B", "2"),
        ("é", "0"),
    ]


def test_a_tenant_without_events_has_a_checkpoint_too() -> None:
    taken = Checkpoint(tenant_id=TENANT, taken_at=NOON, heads={})

    assert read(write(taken, seed=SEED, signing_key_id="key-1"), key=KEY) == taken


def test_an_empty_chain_has_no_place_in_it() -> None:
    taken = Checkpoint(tenant_id=TENANT, taken_at=NOON, heads={ONE: Head(0, None)})

    with pytest.raises(ValueError, match=r"^an empty chain stands nowhere$"):
        write(taken, seed=SEED, signing_key_id="key-1")


def test_a_checkpoint_is_the_same_in_every_time_zone() -> None:
    elsewhere = replace(TAKEN, taken_at=NOON.astimezone(timezone(timedelta(hours=-7))))

    assert write(elsewhere, seed=SEED, signing_key_id="key-1") == FILE


# Other files


def flips(raw: bytes) -> list[bytes]:
    number = int.from_bytes(raw, "big")
    return [(number ^ 1 << bit).to_bytes(len(raw), "big") for bit in range(8 * len(raw))]


@pytest.mark.parametrize("file", [FILE, FILE + b"\n"], ids=["as written", "with a line end"])
def test_every_flipped_bit_is_refused(file: bytes) -> None:
    passed = []
    for other in flips(file):
        try:
            passed.append(read(other, key=KEY))
        except Invalid:
            continue

    assert passed == []


def test_every_beginning_of_a_file_is_refused() -> None:
    for length in range(len(FILE)):
        refusal(FILE[:length])


@pytest.mark.parametrize("behind", [b"\n\n", b"\r\n", b" ", b"\0", FILE])
def test_nothing_may_stand_behind_it_but_one_line_end(behind: bytes) -> None:
    refusal(FILE + behind)


def test_a_checkpoint_of_another_key_is_refused_even_though_it_brings_that_key() -> None:
    other = write(TAKEN, seed=Seed(bytes(32)), signing_key_id="key-1")

    refused = refusal(other)

    assert isinstance(refused, SignatureInvalid)
    assert refused.says == "the signature does not belong to this content and key"


def test_a_signature_that_is_no_base64_is_said_to_be_the_checkpoints() -> None:
    members: dict[str, Any] = json.loads(FILE)
    good = members["signature"]
    # The last digit before the padding has four bits that stand for nothing.
    same_bytes = good[:-3] + chr(ord(good[-3]) + 1) + "=="
    assert base64.b64decode(same_bytes) == base64.b64decode(good)

    for text in ("not base64", good[:-1], good + "\n", same_bytes):
        refused = refusal(encode({**members, "signature": text}))
        assert refused.says == "the checkpoint has a signature that is not base64"
        assert refused.fix == "use the file as `bpc audit checkpoint` wrote it"


@pytest.mark.parametrize("size", [0, 63, 65])
def test_a_signature_of_another_length_is_refused(size: int) -> None:
    assert isinstance(refusal(encode({**json.loads(FILE), "signature": to_base64(bytes(size))})), SignatureInvalid)


@pytest.mark.parametrize("signature", [None, 7, True, [], {}, ["a"]], ids=ascii)
def test_a_signature_that_is_no_text_is_refused(signature: object) -> None:
    assert refusal(encode({**json.loads(FILE), "signature": signature})).says == MALFORMED


@pytest.mark.parametrize("text", [b"", b"\n", b"{", b"[]", b"null", b"7", b'"text"', b"{}", b"\xff", b"[" * 10_000])
def test_what_is_no_checkpoint_is_refused(text: bytes) -> None:
    assert CODES[refusal(text).code].http == 422


def test_a_file_that_is_written_differently_is_refused() -> None:
    assert "not canonical" in refusal(json.dumps(json.loads(FILE), indent=1).encode()).says


# Files that we signed ourselves, of another form: what a mistake of ours, or a later version, would look like


def signed(members: Mapping[str, object]) -> bytes:
    body = {name: value for name, value in members.items() if name != "signature"}
    return encode({**body, "signature": to_base64(sign(SEED, sha256(encode(body))))})


def with_head(**members: object) -> bytes:
    body: dict[str, Any] = json.loads(FILE)
    body["heads"][0] |= members
    return signed(body)


def test_a_file_signed_like_this_is_what_we_write() -> None:
    assert signed(json.loads(FILE)) == FILE == with_head()


@pytest.mark.parametrize("name", sorted(json.loads(FILE)))
def test_no_member_may_be_missing_or_be_there_besides(name: str) -> None:
    members: dict[str, Any] = json.loads(FILE)

    assert refusal(signed({**members, f"{name}_": 1})).says == MALFORMED
    del members[name]
    left = encode(members) if name == "signature" else signed(members)
    assert refusal(left).says == MALFORMED


@pytest.mark.parametrize("name", ["aggregate_id", "aggregate_type", "event_hash", "version"])
def test_no_member_of_a_chain_may_be_missing_or_be_there_besides(name: str) -> None:
    members: dict[str, Any] = json.loads(FILE)
    del members["heads"][1][name]

    assert refusal(signed(members)).says == MALFORMED
    assert refusal(with_head(**{f"{name}_": 1})).says == MALFORMED


@pytest.mark.parametrize("version", [0, -1, True, False, None, "1", [1]], ids=ascii)
def test_a_version_is_a_number_from_1(version: object) -> None:
    assert refusal(with_head(version=version)).says == MALFORMED


@pytest.mark.parametrize(
    "members",
    [
        {"checkpoint_version": "BPC-CHECKPOINT-2"},
        {"checkpoint_version": 1},
        {"heads": {}},
        {"heads": "none"},
        {"heads": None},
        {"heads": [None]},
        {"heads": [[]]},
        {"heads": ["aggregate_id"]},
        {"public_key": None},
        {"public_key": to_base64(bytes(32))},
        {"signing_key_id": 1},
        {"taken_at": 0},
        {"tenant_id": 7},
        {"tenant_id": None},
        {"tenant_id": []},
    ],
    ids=ascii,
)
def test_a_member_of_another_kind_is_refused(members: dict[str, object]) -> None:
    refused = refusal(signed({**json.loads(FILE), **members}))

    assert isinstance(refused, BadCheckpoint)
    assert refused.says == MALFORMED


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"taken_at": "yesterday"}, "`yesterday` is not a time; write it like `2027-02-18T00:00:00.000000Z`"),
        ({"tenant_id": "acme"}, "`acme` is not an id; write it as a lower-case uuid with hyphens"),
    ],
)
def test_a_member_in_another_spelling_is_refused_by_name(members: dict[str, object], says: str) -> None:
    assert refusal(signed({**json.loads(FILE), **members})).says == says


@pytest.mark.parametrize(
    ("name", "value"), [("aggregate_id", 7), ("aggregate_type", 7), ("event_hash", None), ("event_hash", "ab")]
)
def test_a_chain_with_a_member_of_another_kind_is_refused(name: str, value: object) -> None:
    refusal(with_head(**{name: value}))


def test_chains_out_of_order_or_twice_are_refused() -> None:
    members: dict[str, Any] = json.loads(FILE)
    actor, document = members["heads"]

    for wrong in ([document, actor], [actor, actor], [actor, {**actor, "version": 9}]):
        refused = refusal(signed({**members, "heads": wrong}))
        assert refused.says == "the checkpoint has its chains out of order, or one of them twice"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@repeatable
@given(anything)
def test_any_other_json_is_refused_and_never_a_crash(value: object) -> None:
    refusal(encode(value))


@settings(repeatable, max_examples=400)
@given(st.data())
def test_any_other_value_anywhere_in_it_is_refused_or_read_and_never_a_crash(data: st.DataObject) -> None:
    members: dict[str, Any] = json.loads(FILE)
    part = data.draw(st.sampled_from([members, members["heads"][0], members["heads"][1]]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(anything)

    try:
        found = read(signed(members), key=KEY)
    except Invalid:
        return
    # What is read is read right: it writes to the same file and can be compared with a database.
    assert write(found, seed=SEED, signing_key_id=members["signing_key_id"]) == signed(members)
    missing(found, {ONE: Head(1, digest("x")), TWO: Head(1, digest("x"))}, {})


# What was lost since

NOW = {ONE: Head(5, digest("one 5")), TWO: Head(1, digest("two 1"))}
AT: dict[Stream, Digest | None] = {ONE: digest("one 3"), TWO: digest("two 1")}


def test_nothing_is_missing_while_chains_only_grow() -> None:
    grown = {**NOW, stream(9): Head(1, digest("new"))}

    assert missing(TAKEN, TAKEN.heads, AT) == []
    assert missing(TAKEN, grown, AT) == []


def test_a_cut_end_is_found() -> None:
    now = {**NOW, ONE: Head(2, digest("one 2"))}

    assert missing(TAKEN, now, {**AT, ONE: None}) == [
        Fault(stream=ONE, version=2, says="the chain ends here, but the checkpoint saw version 3")
    ]


def test_a_deleted_chain_is_found() -> None:
    now = {ONE: NOW[ONE]}

    assert missing(TAKEN, now, {ONE: AT[ONE], TWO: None}) == [
        Fault(stream=TWO, version=1, says="the whole chain is gone since the checkpoint")
    ]


def test_a_replaced_event_is_found_however_far_the_chain_went_on() -> None:
    assert missing(TAKEN, NOW, {**AT, ONE: digest("forged 3")}) == [
        Fault(stream=ONE, version=3, says="the checkpoint saw another event here")
    ]


def test_an_old_state_that_was_restored_and_written_on_is_found() -> None:
    # Before the checkpoint: chain one at 2, chain two not there. Since the restore: one has new events 3 and 4.
    now = {ONE: Head(4, digest("other 4"))}

    found = missing(TAKEN, now, {ONE: digest("other 3"), TWO: None})

    assert {(fault.stream, fault.says) for fault in found} == {
        (ONE, "the checkpoint saw another event here"),
        (TWO, "the whole chain is gone since the checkpoint"),
    }


def test_a_database_without_anything_has_lost_everything() -> None:
    assert [fault.stream for fault in missing(TAKEN, {}, {})] == [ONE, TWO]


def test_what_retention_removed_is_not_missing() -> None:
    # Everything up to event 4 is gone, with an anchor; event 5 is there.
    assert missing(TAKEN, NOW, {**AT, ONE: None}) == []


def test_a_chain_that_retention_removed_to_its_anchor_is_not_missing() -> None:
    # The anchor is where the chain stands, and has the hash of the last event removed.
    now = {**NOW, ONE: Head(3, digest("one 3"))}

    assert missing(TAKEN, now, AT) == []
    assert missing(TAKEN, now, {**AT, ONE: digest("a forged anchor")}) == [
        Fault(stream=ONE, version=3, says="the checkpoint saw another event here")
    ]


# The page


def test_the_example_of_the_page_is_true() -> None:
    (block,) = re.findall(r"```text\n(.*?)\n```", PAGE.read_bytes().decode(), re.DOTALL)
    page = dict(line.split(": ", 1) for line in block.split("\n"))
    seed = Seed(bytes.fromhex(page["seed"]))
    private = Ed25519PrivateKey.from_private_bytes(seed)
    body = json.loads(page["signed"])

    assert page["public_key"] == body["public_key"]
    assert page["public_key"] == base64.b64encode(private.public_key().public_bytes_raw()).decode()
    assert page["sha256"] == hashlib.sha256(page["signed"].encode()).hexdigest()
    assert page["signature"] == base64.b64encode(private.sign(bytes.fromhex(page["sha256"]))).decode()
    assert json.loads(page["file"]) == {**body, "signature": page["signature"]}

    found = read(page["file"].encode(), key=public_key_of(seed))
    assert write(found, seed=seed, signing_key_id="example-key") == page["file"].encode()
    assert found.taken_at == datetime(2027, 2, 19, tzinfo=UTC)
    assert sorted(head.version for head in found.heads.values()) == [1, 2]


def test_the_second_chain_of_the_example_is_that_of_the_events_page() -> None:
    (file,) = re.findall(r"^file: (.*)$", PAGE.read_bytes().decode(), re.MULTILINE)
    hashes = re.findall(r"^event_hash: (.*)$", PAGE.with_name("events.md").read_bytes().decode(), re.MULTILINE)

    assert json.loads(file)["heads"][1]["event_hash"] == hashes[-1]


def test_the_faults_of_the_page_are_the_faults_we_give() -> None:
    page = PAGE.read_bytes().decode()
    given = [
        *missing(TAKEN, {}, {})[:1],
        *missing(TAKEN, {**NOW, ONE: Head(2, digest("one 2"))}, AT),
        *missing(TAKEN, NOW, {**AT, ONE: digest("forged")}),
    ]

    assert [fault.says for fault in given if fault.says.replace("version 3", "version *n*") not in page] == []
    assert len(given) == 3
