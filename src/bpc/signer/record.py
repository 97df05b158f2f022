"""The signer's own record: every key it made, bound or stopped, and everything it signed, in one file that only grows.

A line is canonical JSON with a number and the hash of the line before. What a key may sign follows from this file
alone, so nobody who changes the database makes a key sign for another tenant, or again.

    SigningRecord.open(file) ─► reads and checks all lines ─► keys, last checkpoint
    record.append(entries)   ─► lines, on disk when it returns

A line is on disk before its signature leaves the signer. After a crash in between, the record names a signature that
nobody got: asked again, the key gives the same one. A line that a crash cut off was never answered, and is removed.
"""

import errno
import fcntl
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias

from bpc.core.audit.signing import PublicKey, from_base64
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.signing_forms import LOG_CHECKPOINT

FIRST_HASH: Final = "0" * 64
KeyStatus: TypeAlias = Literal["ACTIVE", "RETIRED", "COMPROMISED"]
RecordEntry: TypeAlias = Mapping[str, str | int | None]


class RecordDamaged(Conflict):
    """The record is not the one that was written."""

    def __init__(self, path: Path, number: int, reason: str) -> None:
        super().__init__(
            f"line {number:,} of the signer's record `{path}` {reason}",
            fix="find out who changed it; restore it from a copy, or start with a new file and new keys",
        )


class RecordInUse(Conflict):
    """Another signer writes this record."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"another signer is using the record `{path}`", fix="stop it, or use it")


@dataclass(slots=True)
class KeyState:
    """What the record says of one key. Without a tenant it is the installation's."""

    tenant_id: str | None
    public_key: PublicKey
    status: KeyStatus = "ACTIVE"
    has_signed: bool = False


@dataclass(slots=True)
class SigningRecord:
    """An open record. One process has it at a time."""

    path: Path
    descriptor: int
    keys: dict[str, KeyState] = field(default_factory=dict)
    last_position: int = -1
    last_message_hash: str = ""
    count: int = 0
    _head: str = FIRST_HASH

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the record, or begin one. Raises `RecordInUse` and `RecordDamaged`."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RecordInUse(path) from None
            record = cls(path, descriptor)
            record._read_lines()
        except BaseException:
            os.close(descriptor)
            raise
        return record

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.descriptor)

    def append(self, entries: Sequence[RecordEntry]) -> None:
        """Write entries, and return when they are on disk."""
        head, lines = self._head, []
        for number, entry in enumerate(entries, self.count):
            lines.append(canonical_json.encode({**entry, "number": number, "previous": head}))
            head = to_hex(sha256(lines[-1]))
        data = b"".join(line + b"\n" for line in lines)
        length = os.fstat(self.descriptor).st_size
        if os.write(self.descriptor, data) != len(data):  # the disk is full
            os.ftruncate(self.descriptor, length)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fdatasync(self.descriptor)
        self._head, self.count = head, self.count + len(lines)

    def learn(self, entry: RecordEntry) -> None:
        """Let an entry count. Whoever appends it does this first, so that nothing else is decided in between."""
        key_id, what = str(entry["key_id"]), entry["what"]
        if what == "KEY_BOUND":
            tenant = entry["tenant_id"]
            public_key = PublicKey(from_base64(str(entry["public_key"])))
            self.keys[key_id] = KeyState(None if tenant is None else str(tenant), public_key)
        elif what == "KEY_STOPPED":
            self.keys[key_id].status = "COMPROMISED" if entry["status"] == "COMPROMISED" else "RETIRED"
        elif what == "SIGNED":
            self.keys[key_id].has_signed = True
            if entry["kind"] == LOG_CHECKPOINT:
                self.last_position = int(entry["position"] or 0)
                self.last_message_hash = str(entry["message_hash"])

    def _read_lines(self) -> None:
        length = 0
        with self.path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    os.ftruncate(self.descriptor, length)  # a crash cut it off: its signature was never given
                    break
                self._read_line(line[:-1])
                length += len(line)

    def _read_line(self, line: bytes) -> None:
        number = self.count + 1
        try:
            entry = canonical_json.decode(line)
        except Invalid as wrong:
            raise RecordDamaged(self.path, number, f"is not canonical: {wrong.says}") from None
        if not isinstance(entry, dict) or entry.get("number") != self.count or entry.get("previous") != self._head:
            raise RecordDamaged(self.path, number, "does not follow the one before")
        try:
            self.learn(entry)
        except (KeyError, TypeError, ValueError, Invalid):
            raise RecordDamaged(self.path, number, "is not an entry of this record") from None
        self._head, self.count = to_hex(sha256(line)), self.count + 1
