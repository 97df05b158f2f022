"""What a witness decides, C2SP tlog-witness: cosign a checkpoint that the log grew to, refuse everything else.

Pure. The request and what the witness cosigned before come in, the checkpoint to cosign comes out, or `WitnessRefusal`
with the HTTP status that the protocol gives it. The shell stores the new state before it answers.

    old <size of the last checkpoint that the witness cosigned>
    <hashes of the consistency proof, base64, one a line>
    <empty line>
    <checkpoint>
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bpc.core.audit.signing import from_base64, to_base64
from bpc.core.errors import Invalid
from bpc.core.formats.hashes import DIGEST_BYTES, Digest
from bpc.core.tlog.checkpoints import LogCheckpoint, OpenedCheckpoint, parse_size, read_checkpoint_text
from bpc.core.tlog.merkle import EMPTY_ROOT, BadMerkleProof, check_consistency
from bpc.core.tlog.notes import BadNote, SignedNote, VerifierKey, parse_note, require_log_signature

MAX_REQUEST_BYTES: Final = 1 << 20
MAX_PROOF_LINES: Final = 63
BAD_REQUEST, FORBIDDEN, UNKNOWN_LOG, CONFLICT, INCONSISTENT = 400, 403, 404, 409, 422


class WitnessRefusal(Invalid):
    """The witness does not cosign. `status` is the answer's; `known_size` is given where the old size is wrong."""

    def __init__(self, status: int, reason: str, *, known_size: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.known_size = known_size


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessRequest:
    """A checkpoint for a witness, and the proof that the log grew to it."""

    old_size: int
    proof: tuple[Digest, ...]
    note: SignedNote

    def encode(self) -> bytes:
        lines = [f"old {self.old_size}", *map(to_base64, self.proof), "", ""]
        return "\n".join(lines).encode() + self.note.encode()


def parse_witness_request(body: bytes) -> WitnessRequest:
    if len(body) > MAX_REQUEST_BYTES:
        raise WitnessRefusal(BAD_REQUEST, f"the request has more than {MAX_REQUEST_BYTES:,} bytes")
    head, _, checkpoint = body.partition(b"\n\n")
    lines = head.decode("latin-1").split("\n")
    if not lines[0].startswith("old ") or len(lines) - 1 > MAX_PROOF_LINES:
        raise WitnessRefusal(BAD_REQUEST, "the request does not begin with `old`, or its proof is too long")
    try:
        proof = tuple(Digest(from_base64(line, size=DIGEST_BYTES)) for line in lines[1:])
        return WitnessRequest(
            old_size=parse_size(lines[0].removeprefix("old ")), proof=proof, note=parse_note(checkpoint)
        )
    except Invalid as wrong:
        raise WitnessRefusal(BAD_REQUEST, f"the request is not valid: {wrong.says}") from None


def find_log_key(request: WitnessRequest, logs: Mapping[str, VerifierKey]) -> VerifierKey:
    """The key of the log that the request is about."""
    origin = request.note.text.partition("\n")[0]
    if origin not in logs:
        raise WitnessRefusal(UNKNOWN_LOG, "this witness does not know the log of this checkpoint")
    return logs[origin]


def decide_cosigning(request: WitnessRequest, key: VerifierKey, last: LogCheckpoint | None) -> OpenedCheckpoint:
    """The checkpoint to cosign; `last` is the one that this witness cosigned before, if any.

    Checks:
      1. the log's key signed the checkpoint
      2. the old size is not above the new one, and is what this witness cosigned last
      3. the new tree begins with the old one
    """
    try:
        require_log_signature(request.note, key)  # 1
    except BadNote as wrong:
        raise WitnessRefusal(FORBIDDEN, wrong.says) from None
    try:
        checkpoint = read_checkpoint_text(request.note.text)
    except BadNote as wrong:
        raise WitnessRefusal(BAD_REQUEST, wrong.says) from None
    known_size, known_root = (0, EMPTY_ROOT) if last is None else (last.size, last.root)
    if request.old_size > checkpoint.size:  # 2
        raise WitnessRefusal(BAD_REQUEST, "the old size is above the size of the checkpoint")
    if request.old_size != known_size:
        says = f"this witness has cosigned a checkpoint of {known_size:,} entries"
        raise WitnessRefusal(CONFLICT, says, known_size=known_size)
    try:
        check_consistency(known_size, checkpoint.size, known_root, checkpoint.root, request.proof)  # 3
    except BadMerkleProof as wrong:
        raise WitnessRefusal(INCONSISTENT, wrong.says) from None
    return OpenedCheckpoint(checkpoint, request.note)
