"""Anchors: where chains begin after retention has removed their first events, and who vouches for each.

Pure. An anchor is believed because an event says so: each part of a retention run puts a RetentionApplied event on the
Tenant's own chain, which is never cut, with the hash of the list of anchors it put.

    anchors, lists with the hashes that were claimed for them ─► unvouched ─► what somebody else put, moved or took away
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from bpc.core.canon import decode, encode
from bpc.core.digest import Digest, from_hex, sha256, to_hex
from bpc.core.errors import Invalid
from bpc.core.events import Fault, Head, Stream

APPLIED: Final = "RetentionApplied"
NEVER_CUT: Final = "Tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One RetentionApplied event: where it stands, the hash it claims, and the anchors listed under it.

    `claimed` is None where the event does not claim any hash that can be read.
    """

    stream: Stream
    version: int
    claimed: Digest | None
    anchors: Mapping[Stream, Head]

    @property
    def vouches(self) -> bool:
        return self.claimed is not None and hash_of(self.anchors) == self.claimed


def listed(heads: Mapping[Stream, Head]) -> list[dict[str, object]]:
    """Chains and where they stand, as JSON in the one order: by type, as UTF-8 bytes, then by id."""
    return [
        {
            "aggregate_id": str(stream.aggregate_id),
            "aggregate_type": stream.aggregate_type,
            "event_hash": to_hex(_hash(head)),
            "version": head.version,
        }
        for stream, head in sorted(heads.items(), key=lambda item: order(item[0]))
    ]


def order(stream: Stream) -> tuple[bytes, UUID]:
    """What chains are sorted by."""
    return stream.aggregate_type.encode(), stream.aggregate_id


def hash_of(anchors: Mapping[Stream, Head]) -> Digest:
    """SHA-256 of the canonical list."""
    return sha256(encode(listed(anchors)))


def claim(anchors: Mapping[Stream, Head]) -> dict[str, object]:
    """What a RetentionApplied event says of the anchors it vouches for."""
    return {"count": len(anchors), "sha256": to_hex(hash_of(anchors))}


def claimed_in(payload_canonical: bytes) -> Digest | None:
    """The hash that the payload of a RetentionApplied event claims; None if there is none to be read."""
    try:
        said = decode(payload_canonical)
        anchors = said.get("anchors") if isinstance(said, dict) else None
        text = anchors.get("sha256") if isinstance(anchors, dict) else None
        return from_hex(text) if isinstance(text, str) else None
    except Invalid:
        return None


def unvouched(anchors: Mapping[Stream, Head], parts: Iterable[Part]) -> Iterator[Fault]:
    """Everything wrong with the anchors of a tenant; `parts` in the order of their events.

    Checks:
      1. each list has the hash that its event claims; one that has not vouches for nothing
      2. each anchor is where the last list that names its chain put it
      3. each chain that a list names still has an anchor
    """
    last: dict[Stream, Head] = {}
    for part in parts:
        if part.vouches:
            last |= part.anchors
        else:  # 1
            says = "the anchors listed under it do not have the hash it claims"
            yield Fault(stream=part.stream, version=part.version, says=says)
    for stream, head in anchors.items():
        if last.get(stream) != head:  # 2
            says = f"no {APPLIED} event vouches for the anchor its chain begins at"
            yield Fault(stream=stream, version=head.version, says=says)
    for stream, head in last.items():
        if stream not in anchors:  # 3
            yield Fault(stream=stream, version=head.version, says="the anchor that retention left here is gone")


def _hash(head: Head) -> Digest:
    if head.event_hash is None:
        raise ValueError("an empty chain stands nowhere")
    return head.event_hash
