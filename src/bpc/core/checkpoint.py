"""Checkpoints, BPC-CHECKPOINT-1: where every chain of a tenant stood, signed, to be kept somewhere else.

A chain shows what was changed inside it, but not that its end, or all of it, is gone. A checkpoint does: every
chain must still contain the event it names.

    heads, key ─► write ─► bytes for a file
    bytes, pinned public key ─► read ─► Checkpoint ─► missing(what the database has now)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from bpc.core.anchors import listed, order
from bpc.core.canon import decode, encode
from bpc.core.digest import Digest, from_hex, sha256
from bpc.core.errors import Invalid
from bpc.core.events import Fault, Head, Stream
from bpc.core.ids import AggregateId, TenantId, parse_uuid
from bpc.core.signing import BadKey, PublicKey, Seed, from_base64, public_key_of, sign, to_base64, verify
from bpc.core.timestamps import format_time, parse_time

VERSION: Final = "BPC-CHECKPOINT-1"
MEMBERS: Final = {
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
    heads: Mapping[Stream, Head]


class BadCheckpoint(Invalid):
    """The file is not a checkpoint that we can rely on."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the checkpoint {reason}", fix="use the file as `bpc audit checkpoint` wrote it")


def write(checkpoint: Checkpoint, *, seed: Seed, signing_key_id: str) -> bytes:
    """The canonical bytes, signed."""
    body: dict[str, object] = {
        "checkpoint_version": VERSION,
        "heads": listed(checkpoint.heads),
        "public_key": to_base64(public_key_of(seed)),
        "signing_key_id": signing_key_id,
        "taken_at": format_time(checkpoint.taken_at),
        "tenant_id": str(checkpoint.tenant_id),
    }
    return encode({**body, "signature": to_base64(sign(seed, sha256(encode(body))))})


def read(data: bytes, *, key: PublicKey) -> Checkpoint:
    """Read a file and rely on nothing in it before it is checked.

    Checks:
      1. it is the canonical bytes of an object of exactly our members, perhaps with a line end behind
      2. its signature is that of `key`, which is ours and never taken from the file
      3. every member has the one type and spelling that `write` gives it
      4. its chains are in order, none twice
    """
    body = decode(data.removesuffix(b"\n"))  # 1
    if not isinstance(body, dict) or body.keys() != MEMBERS or body["checkpoint_version"] != VERSION:
        raise _malformed()
    members: dict[str, Any] = dict(body)
    signature = _signature(members.pop("signature"))
    verify(key, sha256(encode(members)), signature)  # 2
    try:
        return _checkpoint(members, key)  # 3
    except (TypeError, AttributeError):  # of a text there was something else
        raise _malformed() from None


def missing(checkpoint: Checkpoint, now: Mapping[Stream, Head], at: Mapping[Stream, Digest | None]) -> list[Fault]:
    """What the checkpoint saw and the database no longer has.

    `now` is where each chain stands; `at` gives, for each chain of the checkpoint, the hash its event has today
    at the checkpoint's version, or None where retention removed it together with later ones.
    """
    return [fault for stream, head in checkpoint.heads.items() for fault in _lost(stream, head, now, at)]


def _lost(
    stream: Stream, head: Head, now: Mapping[Stream, Head], at: Mapping[Stream, Digest | None]
) -> Iterable[Fault]:
    found = now.get(stream)
    if found is None:
        yield Fault(stream=stream, version=head.version, says="the whole chain is gone since the checkpoint")
    elif found.version < head.version:
        yield Fault(
            stream=stream,
            version=found.version,
            says=f"the chain ends here, but the checkpoint saw version {head.version}",
        )
    elif (known := at.get(stream)) is not None and known != head.event_hash:
        yield Fault(stream=stream, version=head.version, says="the checkpoint saw another event here")


def _signature(text: object) -> bytes:
    if not isinstance(text, str):
        raise _malformed()
    try:
        return from_base64(text)
    except BadKey:
        raise BadCheckpoint("has a signature that is not base64") from None


def _checkpoint(members: Mapping[str, Any], key: PublicKey) -> Checkpoint:
    if members["public_key"] != to_base64(key) or not isinstance(members["signing_key_id"], str):
        raise _malformed()
    tenant = TenantId(parse_uuid(members["tenant_id"]))
    taken_at = parse_time(members["taken_at"])
    return Checkpoint(tenant_id=tenant, taken_at=taken_at, heads=_heads(tenant, members["heads"]))


def _heads(tenant: TenantId, entries: object) -> Mapping[Stream, Head]:
    if not isinstance(entries, list):
        raise _malformed()
    heads = [_head(tenant, entry) for entry in entries]
    if any(order(before) >= order(after) for (before, _), (after, _) in pairwise(heads)):  # 4
        raise BadCheckpoint("has its chains out of order, or one of them twice")
    return dict(heads)


def _head(tenant: TenantId, entry: object) -> tuple[Stream, Head]:
    if not isinstance(entry, dict) or entry.keys() != HEAD_MEMBERS:
        raise _malformed()
    kind, version = entry["aggregate_type"], entry["version"]
    # `type`, because true is an integer to Python.
    if not isinstance(kind, str) or type(version) is not int or version < 1:
        raise _malformed()
    stream = Stream(tenant, kind, AggregateId(parse_uuid(entry["aggregate_id"])))
    return stream, Head(version, from_hex(entry["event_hash"]))


def _malformed() -> BadCheckpoint:
    return BadCheckpoint(f"is not of the form {VERSION}")
