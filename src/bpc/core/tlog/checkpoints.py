"""Checkpoints, C2SP tlog-checkpoint: which log, how many entries, which root; signed by the log.

Not to be confused with the checkpoints of audit chains (bpc.core.audit.checkpoint), which are files of our own form.

    LogCheckpoint ─► text ─► NoteSigner.sign ─► the note that a log publishes
    bytes, verifier key ─► open_checkpoint ─► the checkpoint, signed by that key
"""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from bpc.core.audit.signing import from_base64, to_base64
from bpc.core.errors import Invalid
from bpc.core.formats.hashes import DIGEST_BYTES, Digest
from bpc.core.tlog.merkle import EMPTY_ROOT, MAX_TREE_SIZE
from bpc.core.tlog.notes import BadNote, SignedNote, VerifierKey, parse_note, require_log_signature

_SIZE: Final = re.compile("0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheckpoint:
    """The state of a log: how many entries it has, and the root of their tree."""

    origin: str
    size: int
    root: Digest

    @property
    def text(self) -> str:
        return f"{self.origin}\n{self.size}\n{to_base64(self.root)}\n"


class OpenedCheckpoint(NamedTuple):
    """A checkpoint and the note it was read from."""

    checkpoint: LogCheckpoint
    note: SignedNote


def parse_size(text: str) -> int:
    """A number of entries in its one spelling."""
    if not _SIZE.fullmatch(text) or int(text) > MAX_TREE_SIZE:
        raise BadNote("has a tree size that is not a number in its one spelling")
    return int(text)


def read_checkpoint_text(text: str) -> LogCheckpoint:
    """The checkpoint in the text of a note. Lines after the third are allowed and mean nothing here."""
    lines = text.split("\n")
    if len(lines) < 4 or lines[-1] != "" or "" in lines[:-1]:
        raise BadNote("is not a checkpoint: it needs the lines origin, size and root hash")
    origin, size, root = lines[:3]
    try:
        root_bytes = from_base64(root, size=DIGEST_BYTES)
    except Invalid:
        raise BadNote("is not a checkpoint: its third line is not a hash in base64") from None
    return LogCheckpoint(origin=origin, size=parse_size(size), root=Digest(root_bytes))


def open_checkpoint(data: bytes, key: VerifierKey) -> OpenedCheckpoint:
    """The checkpoint that `key` signed; its origin is the key's name."""
    note = parse_note(data)
    require_log_signature(note, key)
    checkpoint = read_checkpoint_text(note.text)
    if checkpoint.origin != key.name:
        raise BadNote(f"is of the log `{checkpoint.origin[:80]}`, not of `{key.name}`")
    if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
        raise BadNote("says that the log is empty, with a root that is not that of an empty tree")
    return OpenedCheckpoint(checkpoint, note)
