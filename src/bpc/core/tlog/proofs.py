"""Proofs of logging, C2SP tlog-proof: one text that shows, without the log, that an entry is in it and who saw that.

    c2sp.org/tlog-proof@v1
    extra <base64>             optional; in our bundles the opening of the entry (bpc.core.tlog.entries)
    index <number>
    <hashes, base64, one a line>
    <empty line>
    <checkpoint>

Pure.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from bpc.core.audit.signing import from_base64, to_base64
from bpc.core.errors import Invalid
from bpc.core.formats.hashes import DIGEST_BYTES, Digest
from bpc.core.tlog.checkpoints import LogCheckpoint, open_checkpoint, parse_size, read_checkpoint_text
from bpc.core.tlog.cosignatures import read_cosignature_time
from bpc.core.tlog.merkle import check_inclusion
from bpc.core.tlog.notes import SignedNote, parse_note
from bpc.core.tlog.policy import LogPolicy

PROOF_HEADER: Final = "c2sp.org/tlog-proof@v1"
MAX_HASHES: Final = 63
MAX_PROOF_TEXT_BYTES: Final = 1 << 20


class BadLogProof(Invalid):
    """The bytes are not a proof of logging, or it does not prove what it should."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the log proof {reason}")


class WitnessTime(NamedTuple):
    """A witness of the policy, by its name there, and when it cosigned."""

    name: str
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInclusion:
    """What a proof shows: the log, where the entry is, and which witnesses saw the tree when."""

    checkpoint: LogCheckpoint
    index: int
    witnesses: tuple[WitnessTime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProof:
    """Where an entry is, the hashes to the root, and the checkpoint as it was published."""

    index: int
    hashes: tuple[Digest, ...]
    checkpoint: bytes
    extra: bytes | None = None

    def encode(self) -> bytes:
        lines = [PROOF_HEADER]
        lines += [] if self.extra is None else [f"extra {to_base64(self.extra)}"]
        lines += [f"index {self.index}", *map(to_base64, self.hashes), "", ""]
        return "\n".join(lines).encode() + self.checkpoint

    def read_checkpoint(self) -> LogCheckpoint:
        """What the checkpoint says; its signatures are not checked."""
        return read_checkpoint_text(parse_note(self.checkpoint).text)


def parse_log_proof(data: bytes) -> LogProof:
    """The proof these bytes are; `BadLogProof` unless writing it again gives the same bytes."""
    if len(data) > MAX_PROOF_TEXT_BYTES:
        raise BadLogProof(f"has more than {MAX_PROOF_TEXT_BYTES:,} bytes")
    head, separator, checkpoint = data.partition(b"\n\n")
    try:
        lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise BadLogProof("is not ASCII before its checkpoint") from None
    if not separator or lines.pop(0) != PROOF_HEADER:
        raise BadLogProof(f"does not begin with `{PROOF_HEADER}`, or has no checkpoint")
    extra_line = lines.pop(0) if lines and lines[0].startswith("extra ") else None
    if not lines or not lines[0].startswith("index "):
        raise BadLogProof("does not say the index of the entry")
    if len(lines) - 1 > MAX_HASHES:
        raise BadLogProof(f"has more than {MAX_HASHES} hashes")
    try:
        extra = None if extra_line is None else from_base64(extra_line.removeprefix("extra "))
        index = parse_size(lines[0].removeprefix("index "))
        hashes = tuple(Digest(from_base64(line, size=DIGEST_BYTES)) for line in lines[1:])
        parse_note(checkpoint)
    except Invalid as wrong:
        raise BadLogProof(f"is not valid: {wrong.says}") from None
    proof = LogProof(index=index, hashes=hashes, checkpoint=checkpoint, extra=extra)
    if proof.encode() != data:
        raise BadLogProof("is not written in its one form")
    return proof


def check_log_proof(proof: LogProof, leaf: Digest, policy: LogPolicy) -> LogInclusion:
    """What the proof shows to somebody with this policy.

    Checks:
      1. the checkpoint's origin is a log of the policy, and the log's key signed it
      2. every cosignature of a witness of the policy is valid, and the witnesses are enough
      3. the hashes lead from the entry to the root of the checkpoint
    """
    origin = proof.read_checkpoint().origin
    log = policy.find_log(origin)
    if log is None:  # 1
        raise BadLogProof(f"is of the log `{origin[:80]}`, which your policy does not name")
    checkpoint, note = open_checkpoint(proof.checkpoint, log.key)
    witnesses = find_witnesses(note, policy)
    if not policy.is_met([witness.name for witness in witnesses]):  # 2
        raise BadLogProof(f"has {len(witnesses)} witnesses of your policy, and that is below its quorum")
    check_inclusion(leaf, proof.index, checkpoint.size, proof.hashes, checkpoint.root)  # 3
    return LogInclusion(checkpoint=checkpoint, index=proof.index, witnesses=witnesses)


def find_witnesses(note: SignedNote, policy: LogPolicy) -> tuple[WitnessTime, ...]:
    """The witnesses of the policy that cosigned, the earliest first."""
    times = ((name, read_cosignature_time(note, witness.key)) for name, witness in policy.witnesses.items())
    cosigners = [WitnessTime(name, seconds) for name, seconds in times if seconds is not None]
    return tuple(sorted(cosigners, key=lambda witness: (witness.seconds, witness.name)))
