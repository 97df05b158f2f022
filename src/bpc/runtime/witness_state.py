"""What a witness keeps: its keys, and for each log the last checkpoint that it cosigned. A folder, no database.

    <folder>/ed25519.key, ml-dsa-44.key       made by the first start, mode 0600
    <folder>/<SHA-256 of the origin>          the note with our cosignatures, replaced as a whole

`answer_witness_request` is what it answers over HTTP (bpc.runtime.static_server).

A checkpoint is on disk before anybody sees the cosignature, and one process at a time holds the folder: otherwise two
answers could cosign a fork.
"""

import fcntl
import os
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.hashes import sha256
from bpc.core.tlog.checkpoints import LogCheckpoint, read_checkpoint_text
from bpc.core.tlog.cosignatures import Sign, make_cosignature
from bpc.core.tlog.notes import NoteSignature, SignatureType, VerifierKey, parse_note
from bpc.core.tlog.witness import WitnessRefusal, decide_cosigning, find_log_key, parse_witness_request
from bpc.runtime import clock
from bpc.runtime.settings.value_types import decode_seed
from bpc.runtime.static_server import StaticAnswer, answer_text

KEY_FILES: Final[Mapping[SignatureType, str]] = {
    SignatureType.COSIGNATURE_ED25519: "ed25519.key",
    SignatureType.COSIGNATURE_ML_DSA_44: "ml-dsa-44.key",
}
SEED_BYTES: Final = 32
LOCK_FILE: Final = ".witness.lock"
SIZE_TYPE: Final = "text/x.tlog.size"


class Cosigner(NamedTuple):
    """A key of the witness, and its private half."""

    key: VerifierKey
    sign: Sign


class WitnessFolderInUse(Conflict):
    """Another process is the witness of this folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"another process uses `{folder}`", fix="stop it, or give this witness a folder of its own")


@dataclass(slots=True)
class WitnessState:
    """A witness: what it knows of each log, and the keys it cosigns with."""

    folder: Path
    logs: Mapping[str, VerifierKey]
    cosigners: tuple[Cosigner, ...]
    now: Callable[[], datetime]
    lock: threading.Lock
    descriptor: int

    def add_checkpoint(self, body: bytes) -> bytes:
        """Decide about a request; the lines with our cosignatures. Raises `WitnessRefusal`."""
        request = parse_witness_request(body)
        key = find_log_key(request, self.logs)
        with self.lock:
            checkpoint, note = decide_cosigning(request, key, self.find_last(key.name))
            seconds = int(self.now().timestamp())
            signatures: list[NoteSignature] = [
                make_cosignature(note.text, cosigner.key, cosigner.sign, seconds=seconds) for cosigner in self.cosigners
            ]
            log_signatures = [signature for signature in note.signatures if signature.is_of(key)]
            kept = type(note)(note.text, tuple(log_signatures)).add(signatures)
            replace_durably(self._locate(checkpoint.origin), kept.encode())
        return "".join(signature.to_line() for signature in signatures).encode()

    def find_last(self, origin: str) -> LogCheckpoint | None:
        """The last checkpoint that we cosigned."""
        data = self.read_note(sha256(origin.encode()).hex())
        return None if data is None else read_checkpoint_text(parse_note(data).text)

    def read_note(self, origin_hash: str) -> bytes | None:
        """The note of a log by the hash of its origin, with our cosignatures."""
        if origin_hash not in {sha256(origin.encode()).hex() for origin in self.logs}:
            return None
        try:
            return (self.folder / origin_hash).read_bytes()
        except FileNotFoundError:
            return None

    def close(self) -> None:
        os.close(self.descriptor)

    def _locate(self, origin: str) -> Path:
        return self.folder / sha256(origin.encode()).hex()


def open_witness(
    folder: Path, name: str, logs: Mapping[str, VerifierKey], *, now: Callable[[], datetime]
) -> WitnessState:
    """The witness of a folder; its keys are made if there are none. Refused while another process has the folder."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise WitnessFolderInUse(folder) from None
    cosigners = tuple(_load_cosigner(folder / file, name, kind) for kind, file in KEY_FILES.items())
    return WitnessState(folder, logs, cosigners, now, threading.Lock(), descriptor)


def _load_cosigner(path: Path, name: str, kind: SignatureType) -> Cosigner:
    if not path.exists():
        replace_durably(path, b64encode(clock.random_bytes(SEED_BYTES)) + b"\n")
    try:
        seed = decode_seed(path.read_text().strip())
    except ValueError as wrong:
        raise Invalid(
            f"`{path}` {wrong}", fix="restore it from a backup: a witness with another key is another"
        ) from None
    if kind == SignatureType.COSIGNATURE_ED25519:
        key = Ed25519PrivateKey.from_private_bytes(seed)
        return Cosigner(VerifierKey(name, kind, key.public_key().public_bytes_raw()), key.sign)
    ml_dsa_key = MLDSA44PrivateKey.from_seed_bytes(seed)
    return Cosigner(VerifierKey(name, kind, ml_dsa_key.public_key().public_bytes_raw()), ml_dsa_key.sign)


def replace_durably(path: Path, data: bytes) -> None:
    """Replace a file as a whole: after a power cut there is the old one or the new one."""
    temporary = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def answer_witness_request(state: WitnessState, method: str, path: str, body: bytes) -> StaticAnswer:
    """The answer of a witness: `POST /add-checkpoint`, `GET /<hash of the origin>/checkpoint`."""
    if method == "POST" and path == "/add-checkpoint":
        try:
            lines = state.add_checkpoint(body)
        except WitnessRefusal as refusal:
            if refusal.known_size is not None:
                return StaticAnswer(
                    status=refusal.status, body=f"{refusal.known_size}\n".encode(), headers={"Content-Type": SIZE_TYPE}
                )
            return answer_text(refusal.status, refusal.says)
        return StaticAnswer(status=200, body=lines, headers={"Content-Type": "text/plain; charset=utf-8"})
    origin_hash, separator, rest = path.removeprefix("/").partition("/")
    note = state.read_note(origin_hash) if method == "GET" and separator and rest == "checkpoint" else None
    if note is None:
        return answer_text(404, "this witness has nothing here")
    return StaticAnswer(status=200, body=note, headers={"Content-Type": "text/plain; charset=utf-8"})
