"""Checkpoints, BPC-CHECKPOINT-1: where every chain of a tenant stood, signed, to be kept somewhere else.

A chain shows what was changed inside it, but not that its end, or all of it, is gone. A checkpoint does: every
chain must still contain the event it names.

    heads, key ─► write_checkpoint ─► bytes for a file
    bytes, pinned public key ─► read_checkpoint ─► Checkpoint ─► find_missing_events(what the database has now)
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple
from uuid import UUID

from bpc.core.audit.events import ChainFault, ChainHead, EventStream
from bpc.core.audit.signing import (
    BadKey,
    PublicKey,
    Seed,
    Signer,
    from_base64,
    parse_public_key,
    to_base64,
    verify_signature,
)
from bpc.core.errors import Invalid
from bpc.core.formats.canonical_json import decode, encode
from bpc.core.formats.hashes import Digest, from_hex, sha256, to_hex
from bpc.core.formats.ids import AggregateId, TenantId, parse_uuid
from bpc.core.formats.timestamps import format_time, parse_time

# Anchors: where chains begin after retention has removed their first events, and who vouches for each.
RETENTION_EVENT_TYPE: Final = "RetentionApplied"
UNCUT_AGGREGATE_TYPE: Final = "Tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorList:
    """One RetentionApplied event: where it stands, the hash it claims, and the anchors listed under it.

    `claimed_hash` is None where the event does not claim any hash that can be read.
    """

    stream: EventStream
    version: int
    claimed_hash: Digest | None
    anchors: Mapping[EventStream, ChainHead]

    @property
    def matches_claim(self) -> bool:
        return self.claimed_hash is not None and hash_anchors(self.anchors) == self.claimed_hash


def heads_to_json(heads: Mapping[EventStream, ChainHead]) -> list[dict[str, object]]:
    """Chains and where they stand, as JSON in the one order: by type, as UTF-8 bytes, then by id."""
    return [
        {
            "aggregate_id": str(stream.aggregate_id),
            "aggregate_type": stream.aggregate_type,
            "event_hash": to_hex(_require_event_hash(head)),
            "version": head.version,
        }
        for stream, head in sorted(heads.items(), key=lambda item: stream_sort_key(item[0]))
    ]


def stream_sort_key(stream: EventStream) -> tuple[bytes, UUID]:
    """What chains are sorted by."""
    return stream.aggregate_type.encode(), stream.aggregate_id


def hash_anchors(anchors: Mapping[EventStream, ChainHead]) -> Digest:
    """SHA-256 of the canonical list."""
    return sha256(encode(heads_to_json(anchors)))


def describe_anchors(anchors: Mapping[EventStream, ChainHead]) -> dict[str, object]:
    """What a RetentionApplied event says of the anchors it vouches for."""
    return {"count": len(anchors), "sha256": to_hex(hash_anchors(anchors))}


def read_claimed_hash(payload_canonical: bytes) -> Digest | None:
    """The hash that the payload of a RetentionApplied event claims; None if there is none to be read."""
    try:
        payload = decode(payload_canonical)
        anchors = payload.get("anchors") if isinstance(payload, dict) else None
        text = anchors.get("sha256") if isinstance(anchors, dict) else None
        return from_hex(text) if isinstance(text, str) else None
    except Invalid:
        return None


def find_anchor_faults(
    anchors: Mapping[EventStream, ChainHead], anchor_lists: Iterable[AnchorList]
) -> Iterator[ChainFault]:
    """Everything wrong with the anchors of a tenant; `anchor_lists` in the order of their events.

    Checks:
      1. each list has the hash that its event claims; one that has not vouches for nothing
      2. each anchor is where the last list that names its chain put it
      3. each chain that a list names still has an anchor
    """
    heads: dict[EventStream, ChainHead] = {}
    for anchor_list in anchor_lists:
        if anchor_list.matches_claim:
            heads |= anchor_list.anchors
        else:  # 1
            says = "the anchors listed under it do not have the hash it claims"
            yield ChainFault(stream=anchor_list.stream, version=anchor_list.version, says=says)
    for stream, head in anchors.items():
        if heads.get(stream) != head:  # 2
            says = f"no {RETENTION_EVENT_TYPE} event vouches for the anchor its chain begins at"
            yield ChainFault(stream=stream, version=head.version, says=says)
    for stream, head in heads.items():
        if stream not in anchors:  # 3
            yield ChainFault(stream=stream, version=head.version, says="the anchor that retention left here is gone")


def _require_event_hash(head: ChainHead) -> Digest:
    if head.event_hash is None:
        raise ValueError("an empty chain stands nowhere")
    return head.event_hash


CHECKPOINT_VERSION: Final = "BPC-CHECKPOINT-1"
CHECKPOINT_MEMBERS: Final = {
    "checkpoint_version",
    "heads",
    "public_key",
    "signature",
    "signing_key_id",
    "taken_at",
    "tenant_id",
}
HEAD_MEMBERS: Final = {"aggregate_id", "aggregate_type", "event_hash", "version"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Where the chains of one tenant stood at one time."""

    tenant_id: TenantId
    taken_at: datetime
    heads: Mapping[EventStream, ChainHead]


class BadCheckpoint(Invalid):
    """The file is not a checkpoint that we can rely on."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the checkpoint {reason}", fix="use the file exactly as it was written", hint="use a written checkpoint"
        )


class UnsignedCheckpoint(NamedTuple):
    """Whose checkpoint it is, and the key that is to sign it."""

    tenant_id: str
    signing_key_id: str
    public_key: PublicKey


def encode_unsigned_checkpoint(checkpoint: Checkpoint, *, public_key: PublicKey, signing_key_id: str) -> bytes:
    """The canonical bytes whose hash is signed."""
    return encode(
        {
            "checkpoint_version": CHECKPOINT_VERSION,
            "heads": heads_to_json(checkpoint.heads),
            "public_key": to_base64(public_key),
            "signing_key_id": signing_key_id,
            "taken_at": format_time(checkpoint.taken_at),
            "tenant_id": str(checkpoint.tenant_id),
        }
    )


def add_checkpoint_signature(unsigned_checkpoint: bytes, signature: bytes) -> bytes:
    """The checkpoint as it is stored."""
    members = decode(unsigned_checkpoint)
    if not isinstance(members, dict):
        raise _form_error()
    return encode({**members, "signature": to_base64(signature)})


def write_checkpoint(checkpoint: Checkpoint, *, seed: Seed, signing_key_id: str) -> bytes:
    """The canonical bytes, signed."""
    signer = Signer(seed)
    unsigned_checkpoint = encode_unsigned_checkpoint(
        checkpoint, public_key=signer.public_key, signing_key_id=signing_key_id
    )
    return add_checkpoint_signature(unsigned_checkpoint, signer.sign(sha256(unsigned_checkpoint)))


def read_unsigned_checkpoint(data: bytes) -> UnsignedCheckpoint:
    """What a checkpoint says of its key; `BadCheckpoint` unless it is whole and not signed yet."""
    body = decode(data)
    if (
        not isinstance(body, dict)
        or body.keys() != CHECKPOINT_MEMBERS - {"signature"}
        or body["checkpoint_version"] != CHECKPOINT_VERSION
    ):
        raise _form_error()
    members: dict[str, Any] = dict(body)
    try:
        key = parse_public_key(from_base64(members["public_key"]))
        checkpoint = _parse_checkpoint(members, key)
    except (TypeError, AttributeError):
        raise _form_error() from None
    return UnsignedCheckpoint(str(checkpoint.tenant_id), members["signing_key_id"], key)


def read_checkpoint(data: bytes, *, key: PublicKey) -> Checkpoint:
    """Read a file and rely on nothing in it before it is checked.

    Checks:
      1. it is the canonical bytes of an object of exactly our members, perhaps with a line end behind
      2. its signature is that of `key`, which is ours and never taken from the file
      3. every member has the one type and spelling that `write_checkpoint` gives it
      4. its chains are in order, none twice
    """
    body = decode(data.removesuffix(b"\n"))  # 1
    if (
        not isinstance(body, dict)
        or body.keys() != CHECKPOINT_MEMBERS
        or body["checkpoint_version"] != CHECKPOINT_VERSION
    ):
        raise _form_error()
    members: dict[str, Any] = dict(body)
    signature = _parse_signature(members.pop("signature"))
    verify_signature(key, sha256(encode(members)), signature)  # 2
    try:
        return _parse_checkpoint(members, key)  # 3
    except (TypeError, AttributeError):  # of a text there was something else
        raise _form_error() from None


def find_missing_events(
    checkpoint: Checkpoint,
    current_heads: Mapping[EventStream, ChainHead],
    current_hashes: Mapping[EventStream, Digest | None],
) -> list[ChainFault]:
    """What the checkpoint saw and the database no longer has.

    `current_heads` is where each chain stands; `current_hashes` gives, for each chain of the checkpoint, the hash its
    event has today at the checkpoint's version, or None where retention removed it together with later ones.
    """
    faults = []
    for stream, head in checkpoint.heads.items():
        current_head, current_hash = current_heads.get(stream), current_hashes.get(stream)
        if current_head is None:
            faults.append((stream, head.version, "the whole chain is gone since the checkpoint"))
        elif current_head.version < head.version:
            says = f"the chain ends here, but the checkpoint saw version {head.version}"
            faults.append((stream, current_head.version, says))
        elif current_hash is not None and current_hash != head.event_hash:
            faults.append((stream, head.version, "the checkpoint saw another event here"))
    return [ChainFault(stream=stream, version=version, says=says) for stream, version, says in faults]


def _parse_signature(text: object) -> bytes:
    if not isinstance(text, str):
        raise _form_error()
    try:
        return from_base64(text)
    except BadKey:
        raise BadCheckpoint("has a signature that is not base64") from None


def _parse_checkpoint(members: Mapping[str, Any], key: PublicKey) -> Checkpoint:
    if members["public_key"] != to_base64(key) or not isinstance(members["signing_key_id"], str):
        raise _form_error()
    tenant = TenantId(parse_uuid(members["tenant_id"]))
    taken_at = parse_time(members["taken_at"])
    return Checkpoint(tenant_id=tenant, taken_at=taken_at, heads=_parse_heads(tenant, members["heads"]))


def _parse_heads(tenant: TenantId, entries: object) -> Mapping[EventStream, ChainHead]:
    if not isinstance(entries, list):
        raise _form_error()
    heads = [_parse_head(tenant, entry) for entry in entries]
    if any(stream_sort_key(before) >= stream_sort_key(after) for (before, _), (after, _) in pairwise(heads)):  # 4
        raise BadCheckpoint("has its chains out of order, or one of them twice")
    return dict(heads)


def _parse_head(tenant: TenantId, entry: object) -> tuple[EventStream, ChainHead]:
    if not isinstance(entry, dict) or entry.keys() != HEAD_MEMBERS:
        raise _form_error()
    kind, version = entry["aggregate_type"], entry["version"]
    # `type`, because true is an integer to Python.
    if not isinstance(kind, str) or type(version) is not int or version < 1:
        raise _form_error()
    stream = EventStream(tenant, kind, AggregateId(parse_uuid(entry["aggregate_id"])))
    return stream, ChainHead(version, from_hex(entry["event_hash"]))


def _form_error() -> BadCheckpoint:
    return BadCheckpoint(f"is not of the form {CHECKPOINT_VERSION}")
