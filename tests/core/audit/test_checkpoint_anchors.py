"""Specification of anchors: only what a RetentionApplied event vouches for is believed, and in its last state."""

from uuid import UUID

import pytest

from bpc.core.audit.checkpoint import (
    AnchorList,
    describe_anchors,
    find_anchor_faults,
    hash_anchors,
    heads_to_json,
    read_claimed_hash,
)
from bpc.core.audit.events import ChainHead, EventStream
from bpc.core.formats.canonical_json import encode
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import AggregateId, TenantId

TENANT = TenantId(UUID(int=1))
OWN = EventStream(TENANT, "Tenant", AggregateId(TENANT))
ONE = EventStream(TENANT, "Document", AggregateId(UUID(int=2)))
TWO = EventStream(TENANT, "Document", AggregateId(UUID(int=3)))
OTHER = EventStream(TENANT, "Actor", AggregateId(UUID(int=9)))


def make_head(version: int, text: str = "") -> ChainHead:
    return ChainHead(version, sha256(f"{version}{text}".encode()))


def make_anchor_list(
    version: int, anchors: dict[EventStream, ChainHead], *, claimed_anchors: dict[EventStream, ChainHead] | None = None
) -> AnchorList:
    return AnchorList(
        stream=OWN,
        version=version,
        claimed_hash=hash_anchors(anchors if claimed_anchors is None else claimed_anchors),
        anchors=anchors,
    )


def list_faults(anchors: dict[EventStream, ChainHead], *parts: AnchorList) -> list[tuple[EventStream, int, str]]:
    return [(fault.stream, fault.version, fault.says) for fault in find_anchor_faults(anchors, parts)]


def test_the_list_is_that_of_a_checkpoint_in_the_order_of_types_and_ids() -> None:
    entries = heads_to_json({TWO: make_head(5), ONE: make_head(4), OTHER: make_head(1)})

    assert [(entry["aggregate_type"], entry["aggregate_id"]) for entry in entries] == [
        ("Actor", str(OTHER.aggregate_id)),
        ("Document", str(ONE.aggregate_id)),
        ("Document", str(TWO.aggregate_id)),
    ]
    assert entries[0] == {
        "aggregate_id": str(OTHER.aggregate_id),
        "aggregate_type": "Actor",
        "event_hash": to_hex(sha256(b"1")),
        "version": 1,
    }
    assert (
        hash_anchors({TWO: make_head(5), ONE: make_head(4)})
        == hash_anchors({ONE: make_head(4), TWO: make_head(5)})
        == sha256(encode(entries[1:]))
    )


def test_what_an_event_claims_can_be_read_back() -> None:
    payload = {"anchors": describe_anchors({ONE: make_head(4)}), "part": 1}

    assert read_claimed_hash(encode(payload)) == hash_anchors({ONE: make_head(4)})


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"{ }",
        b"[]",
        b"{}",
        encode({"anchors": {}}),
        encode({"anchors": {"sha256": 1}}),
        encode({"anchors": {"sha256": "AB" * 32}}),
        encode({"anchors": {"sha256": "ab" * 31}}),
    ],
)
def test_what_cannot_be_read_claims_nothing(payload: bytes) -> None:
    assert read_claimed_hash(payload) is None


def test_anchors_are_believed_where_the_last_part_that_names_their_chain_put_them() -> None:
    parts = [make_anchor_list(2, {ONE: make_head(4), TWO: make_head(5)}), make_anchor_list(3, {ONE: make_head(9)})]

    assert list_faults({}, *[]) == []
    assert list_faults({ONE: make_head(9), TWO: make_head(5)}, *parts) == []
    assert list_faults({ONE: make_head(4), TWO: make_head(5)}, *parts) == [
        (ONE, 4, "no RetentionApplied event vouches for the anchor its chain begins at")
    ]


def test_an_anchor_that_nobody_or_another_hash_vouches_for_is_named() -> None:
    unknown = "no RetentionApplied event vouches for the anchor its chain begins at"

    assert list_faults({ONE: make_head(4)}) == [(ONE, 4, unknown)]
    assert list_faults({ONE: make_head(4, "forged")}, make_anchor_list(2, {ONE: make_head(4)})) == [(ONE, 4, unknown)]
    assert list_faults({ONE: make_head(5)}, make_anchor_list(2, {ONE: make_head(4)})) == [(ONE, 5, unknown)]


def test_a_list_that_does_not_have_its_hash_is_named_and_vouches_for_nothing() -> None:
    added = make_anchor_list(2, {ONE: make_head(4), TWO: make_head(5)}, claimed_anchors={ONE: make_head(4)})
    silent = AnchorList(stream=OWN, version=3, claimed_hash=None, anchors={})

    assert [(stream, version) for stream, version, _ in list_faults({ONE: make_head(4), TWO: make_head(5)}, added)] == [
        (OWN, 2),
        (ONE, 4),
        (TWO, 5),
    ]
    assert list_faults({}, silent) == [(OWN, 3, "the anchors listed under it do not have the hash it claims")]


def test_a_missing_anchor_is_reported() -> None:
    assert list_faults({}, make_anchor_list(2, {ONE: make_head(4)})) == [
        (ONE, 4, "the anchor that retention left here is gone")
    ]
