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

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.audit.checkpoint import BadCheckpoint, Checkpoint, find_missing_events, read_checkpoint, write_checkpoint
from bpc.core.audit.events import ChainHead, EventStream
from bpc.core.audit.signing import Seed, SignatureInvalid, Signer, derive_public_key, to_base64
from bpc.core.errors import CODES, Invalid
from bpc.core.formats.canonical_json import decode, encode
from bpc.core.formats.hashes import Digest, sha256
from tests.core.audit.sample_checkpoints import (
    AT,
    FILE,
    KEY,
    NOON,
    NOW,
    ONE,
    SEED,
    TAKEN,
    TENANT,
    TWO,
    expect_refusal,
    make_digest,
    make_stream,
)
from tests.measurements import choose_examples

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "checkpoint.md"

MALFORMED = "the checkpoint is not of the form BPC-CHECKPOINT-1"

repeatable = settings(derandomize=True, max_examples=choose_examples(200))


# Writing and reading

streams = st.builds(
    EventStream, st.just(TENANT), st.text(st.characters(exclude_categories=["Cs"]), max_size=4), st.uuids()
)
heads = st.dictionaries(
    streams,
    st.builds(ChainHead, st.integers(1, 2**63 - 1), st.binary(min_size=32, max_size=32).map(Digest)),
    max_size=5,
)


@repeatable
@given(heads, st.datetimes(timezones=st.just(UTC)))
def test_a_checkpoint_reads_as_it_was_written(heads: dict[EventStream, ChainHead], at: datetime) -> None:
    taken = Checkpoint(tenant_id=TENANT, taken_at=at, heads=heads)

    written = write_checkpoint(taken, seed=SEED, signing_key_id="key-1")

    assert read_checkpoint(written, key=KEY) == taken
    assert read_checkpoint(written + b"\n", key=KEY) == taken
    assert encode(decode(written)) == written


def test_the_order_chains_are_found_in_does_not_matter() -> None:
    chain_heads = {
        make_stream(2, "B"): ChainHead(1, make_digest("a")),
        make_stream(1, "B"): ChainHead(2, make_digest("b")),
        make_stream(3, "A"): ChainHead(3, make_digest("c")),
        make_stream(0, "é"): ChainHead(4, make_digest("d")),
    }

    written = {
        write_checkpoint(
            Checkpoint(tenant_id=TENANT, taken_at=NOON, heads=dict(order)), seed=SEED, signing_key_id="key-1"
        )
        for order in permutations(chain_heads.items())
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

    assert read_checkpoint(write_checkpoint(taken, seed=SEED, signing_key_id="key-1"), key=KEY) == taken


def test_an_empty_chain_has_no_place_in_it() -> None:
    taken = Checkpoint(tenant_id=TENANT, taken_at=NOON, heads={ONE: ChainHead(0, None)})

    with pytest.raises(ValueError, match=r"^an empty chain stands nowhere$"):
        write_checkpoint(taken, seed=SEED, signing_key_id="key-1")


def test_a_checkpoint_is_the_same_in_every_time_zone() -> None:
    elsewhere = replace(TAKEN, taken_at=NOON.astimezone(timezone(timedelta(hours=-7))))

    assert write_checkpoint(elsewhere, seed=SEED, signing_key_id="key-1") == FILE


# Other files


def flip_each_bit(raw: bytes) -> list[bytes]:
    number = int.from_bytes(raw, "big")
    return [(number ^ 1 << bit).to_bytes(len(raw), "big") for bit in range(8 * len(raw))]


@pytest.mark.parametrize("file", [FILE, FILE + b"\n"], ids=["as written", "with a line end"])
@pytest.mark.slow
def test_every_flipped_bit_is_refused(file: bytes) -> None:
    passed = []
    for other in flip_each_bit(file):
        try:
            passed.append(read_checkpoint(other, key=KEY))
        except Invalid:
            continue

    assert passed == []


def test_every_beginning_of_a_file_is_refused() -> None:
    for length in range(len(FILE)):
        expect_refusal(FILE[:length])


@pytest.mark.parametrize("behind", [b"\n\n", b"\r\n", b" ", b"\0", FILE])
def test_nothing_may_stand_behind_it_but_one_line_end(behind: bytes) -> None:
    expect_refusal(FILE + behind)


def test_a_checkpoint_of_another_key_is_refused_even_though_it_brings_that_key() -> None:
    other = write_checkpoint(TAKEN, seed=Seed(bytes(32)), signing_key_id="key-1")

    refused = expect_refusal(other)

    assert isinstance(refused, SignatureInvalid)
    assert refused.says == "the signature does not belong to this content and key"


def test_a_signature_that_is_no_base64_is_said_to_be_the_checkpoints() -> None:
    members: dict[str, Any] = json.loads(FILE)
    good = members["signature"]
    # The last digit before the padding has four bits that stand for nothing.
    same_bytes = good[:-3] + chr(ord(good[-3]) + 1) + "=="
    assert base64.b64decode(same_bytes) == base64.b64decode(good)

    for text in ("not base64", good[:-1], good + "\n", same_bytes):
        refused = expect_refusal(encode({**members, "signature": text}))
        assert refused.says == "the checkpoint has a signature that is not base64"
        assert refused.fix == "use the file exactly as it was written"


@pytest.mark.parametrize("size", [0, 63, 65])
def test_a_signature_of_another_length_is_refused(size: int) -> None:
    assert isinstance(
        expect_refusal(encode({**json.loads(FILE), "signature": to_base64(bytes(size))})), SignatureInvalid
    )


@pytest.mark.parametrize("signature", [None, 7, True, [], {}, ["a"]], ids=ascii)
def test_a_signature_that_is_no_text_is_refused(signature: object) -> None:
    assert expect_refusal(encode({**json.loads(FILE), "signature": signature})).says == MALFORMED


@pytest.mark.parametrize("text", [b"", b"\n", b"{", b"[]", b"null", b"7", b'"text"', b"{}", b"\xff", b"[" * 10_000])
def test_what_is_no_checkpoint_is_refused(text: bytes) -> None:
    assert CODES[expect_refusal(text).code].http == 422


def test_a_file_that_is_written_differently_is_refused() -> None:
    assert "not canonical" in expect_refusal(json.dumps(json.loads(FILE), indent=1).encode()).says


# Files that we signed ourselves, of another form: what a mistake of ours, or a later version, would look like


def sign_members(members: Mapping[str, object]) -> bytes:
    body = {name: value for name, value in members.items() if name != "signature"}
    return encode({**body, "signature": to_base64(Signer(SEED).sign(sha256(encode(body))))})


def sign_with_head(**members: object) -> bytes:
    body: dict[str, Any] = json.loads(FILE)
    body["heads"][0] |= members
    return sign_members(body)


def test_a_file_signed_like_this_is_what_we_write() -> None:
    assert sign_members(json.loads(FILE)) == FILE == sign_with_head()


@pytest.mark.parametrize("name", sorted(json.loads(FILE)))
def test_a_missing_or_additional_member_is_refused(name: str) -> None:
    members: dict[str, Any] = json.loads(FILE)

    assert expect_refusal(sign_members({**members, f"{name}_": 1})).says == MALFORMED
    del members[name]
    left = encode(members) if name == "signature" else sign_members(members)
    assert expect_refusal(left).says == MALFORMED


@pytest.mark.parametrize("name", ["aggregate_id", "aggregate_type", "event_hash", "version"])
def test_a_missing_or_additional_member_of_a_chain_is_refused(name: str) -> None:
    members: dict[str, Any] = json.loads(FILE)
    del members["heads"][1][name]

    assert expect_refusal(sign_members(members)).says == MALFORMED
    assert expect_refusal(sign_with_head(**{f"{name}_": 1})).says == MALFORMED


@pytest.mark.parametrize("version", [0, -1, True, False, None, "1", [1]], ids=ascii)
def test_a_version_is_a_number_from_1(version: object) -> None:
    assert expect_refusal(sign_with_head(version=version)).says == MALFORMED


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
    refused = expect_refusal(sign_members({**json.loads(FILE), **members}))

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
    assert expect_refusal(sign_members({**json.loads(FILE), **members})).says == says


@pytest.mark.parametrize(
    ("name", "value"), [("aggregate_id", 7), ("aggregate_type", 7), ("event_hash", None), ("event_hash", "ab")]
)
def test_a_chain_with_a_member_of_another_kind_is_refused(name: str, value: object) -> None:
    expect_refusal(sign_with_head(**{name: value}))


def test_chains_out_of_order_or_twice_are_refused() -> None:
    members: dict[str, Any] = json.loads(FILE)
    actor, document = members["heads"]

    for wrong in ([document, actor], [actor, actor], [actor, {**actor, "version": 9}]):
        refused = expect_refusal(sign_members({**members, "heads": wrong}))
        assert refused.says == "the checkpoint has its chains out of order, or one of them twice"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@repeatable
@given(anything)
def test_any_other_json_is_refused_and_never_a_crash(value: object) -> None:
    expect_refusal(encode(value))


@settings(repeatable, max_examples=choose_examples(400))
@given(st.data())
def test_any_other_value_anywhere_in_it_is_refused_or_read_and_never_a_crash(data: st.DataObject) -> None:
    members: dict[str, Any] = json.loads(FILE)
    part = data.draw(st.sampled_from([members, members["heads"][0], members["heads"][1]]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(anything)

    try:
        parsed = read_checkpoint(sign_members(members), key=KEY)
    except Invalid:
        return
    # What is read is read right: it writes to the same file and can be compared with a database.
    assert write_checkpoint(parsed, seed=SEED, signing_key_id=members["signing_key_id"]) == sign_members(members)
    find_missing_events(parsed, {ONE: ChainHead(1, make_digest("x")), TWO: ChainHead(1, make_digest("x"))}, {})


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

    parsed = read_checkpoint(page["file"].encode(), key=derive_public_key(seed))
    assert write_checkpoint(parsed, seed=seed, signing_key_id="example-key") == page["file"].encode()
    assert parsed.taken_at == datetime(2027, 2, 19, tzinfo=UTC)
    assert sorted(head.version for head in parsed.heads.values()) == [1, 2]


def test_the_second_chain_of_the_example_is_that_of_the_events_page() -> None:
    (file,) = re.findall(r"^file: (.*)$", PAGE.read_bytes().decode(), re.MULTILINE)
    hashes = re.findall(r"^event_hash: (.*)$", PAGE.with_name("events.md").read_bytes().decode(), re.MULTILINE)

    assert json.loads(file)["heads"][1]["event_hash"] == hashes[-1]


def test_the_faults_of_the_page_are_the_faults_we_give() -> None:
    page = PAGE.read_bytes().decode()
    faults = [
        *find_missing_events(TAKEN, {}, {})[:1],
        *find_missing_events(TAKEN, {**NOW, ONE: ChainHead(2, make_digest("one 2"))}, AT),
        *find_missing_events(TAKEN, NOW, {**AT, ONE: make_digest("forged")}),
    ]

    assert [fault.says for fault in faults if fault.says.replace("version 3", "version *n*") not in page] == []
    assert len(faults) == 3
