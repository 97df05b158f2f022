"""Specification of anchors: only what a RetentionApplied event vouches for is believed, and in its last state."""

from uuid import UUID

import pytest

from bpc.core.anchors import Part, claim, claimed_in, hash_of, listed, unvouched
from bpc.core.canon import encode
from bpc.core.digest import sha256, to_hex
from bpc.core.events import Head, Stream
from bpc.core.ids import AggregateId, TenantId

TENANT = TenantId(UUID(int=1))
OWN = Stream(TENANT, "Tenant", AggregateId(TENANT))
ONE = Stream(TENANT, "Document", AggregateId(UUID(int=2)))
TWO = Stream(TENANT, "Document", AggregateId(UUID(int=3)))
OTHER = Stream(TENANT, "Actor", AggregateId(UUID(int=9)))


def at(version: int, text: str = "") -> Head:
    return Head(version, sha256(f"{version}{text}".encode()))


def part(version: int, anchors: dict[Stream, Head], *, claimed: dict[Stream, Head] | None = None) -> Part:
    return Part(stream=OWN, version=version, claimed=hash_of(anchors if claimed is None else claimed), anchors=anchors)


def says(anchors: dict[Stream, Head], *parts: Part) -> list[tuple[Stream, int, str]]:
    return [(fault.stream, fault.version, fault.says) for fault in unvouched(anchors, parts)]


def test_the_list_is_that_of_a_checkpoint_in_the_order_of_types_and_ids() -> None:
    found = listed({TWO: at(5), ONE: at(4), OTHER: at(1)})

    assert [(entry["aggregate_type"], entry["aggregate_id"]) for entry in found] == [
        ("Actor", str(OTHER.aggregate_id)),
        ("Document", str(ONE.aggregate_id)),
        ("Document", str(TWO.aggregate_id)),
    ]
    assert found[0] == {
        "aggregate_id": str(OTHER.aggregate_id),
        "aggregate_type": "Actor",
        "event_hash": to_hex(sha256(b"1")),
        "version": 1,
    }
    assert hash_of({TWO: at(5), ONE: at(4)}) == hash_of({ONE: at(4), TWO: at(5)}) == sha256(encode(found[1:]))


def test_what_an_event_claims_can_be_read_back() -> None:
    payload = {"anchors": claim({ONE: at(4)}), "part": 1}

    assert claimed_in(encode(payload)) == hash_of({ONE: at(4)})


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
    assert claimed_in(payload) is None


def test_anchors_are_believed_where_the_last_part_that_names_their_chain_put_them() -> None:
    parts = [part(2, {ONE: at(4), TWO: at(5)}), part(3, {ONE: at(9)})]

    assert says({}, *[]) == []
    assert says({ONE: at(9), TWO: at(5)}, *parts) == []
    assert says({ONE: at(4), TWO: at(5)}, *parts) == [
        (ONE, 4, "no RetentionApplied event vouches for the anchor its chain begins at")
    ]


def test_an_anchor_that_nobody_or_another_hash_vouches_for_is_named() -> None:
    unknown = "no RetentionApplied event vouches for the anchor its chain begins at"

    assert says({ONE: at(4)}) == [(ONE, 4, unknown)]
    assert says({ONE: at(4, "forged")}, part(2, {ONE: at(4)})) == [(ONE, 4, unknown)]
    assert says({ONE: at(5)}, part(2, {ONE: at(4)})) == [(ONE, 5, unknown)]


def test_a_list_that_does_not_have_its_hash_is_named_and_vouches_for_nothing() -> None:
    added = part(2, {ONE: at(4), TWO: at(5)}, claimed={ONE: at(4)})
    silent = Part(stream=OWN, version=3, claimed=None, anchors={})

    assert [(stream, version) for stream, version, _ in says({ONE: at(4), TWO: at(5)}, added)] == [
        (OWN, 2),
        (ONE, 4),
        (TWO, 5),
    ]
    assert says({}, silent) == [(OWN, 3, "the anchors listed under it do not have the hash it claims")]


def test_an_anchor_that_is_gone_is_missed() -> None:
    assert says({}, part(2, {ONE: at(4)})) == [(ONE, 4, "the anchor that retention left here is gone")]
