"""Signed notes, C2SP signed-note: a text and the signatures of keys over it, as lines.

    <text, ends with a line end>
    <empty line>
    — <key name> <base64 of key id and signature>

Pure. A key is written as `<name>+<key id>+<base64 of type and public key>`, a verifier key. Three types are known: a
log's Ed25519 signature over the text (1), and cosignatures of witnesses with Ed25519 (4) or ML-DSA-44 (6), whose
messages are made by bpc.core.tlog.cosignatures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from bpc.core.audit.signing import BadKey, Seed, from_base64, parse_public_key, to_base64
from bpc.core.errors import Invalid
from bpc.core.formats.hashes import sha256

KEY_ID_BYTES: Final = 4
MAX_NOTE_BYTES: Final = 1 << 20
MAX_SIGNATURES: Final = 100
MAX_NAME_BYTES: Final = 255  # what an ML-DSA-44 cosignature can commit to
SIGNATURE_MARK: Final = "— "
# Unicode's White_Space: none of these may be in the name of a key.
SPACES: Final = frozenset(
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class SignatureType(IntEnum):
    """The byte that says what a key signs, and how."""

    ED25519 = 1
    COSIGNATURE_ED25519 = 4
    COSIGNATURE_ML_DSA_44 = 6


PUBLIC_KEY_BYTES: Final = {
    SignatureType.ED25519: 32,
    SignatureType.COSIGNATURE_ED25519: 32,
    SignatureType.COSIGNATURE_ML_DSA_44: 1312,
}


class BadNote(Invalid):
    """The bytes are not a signed note, or a signature in it is wrong."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the note {reason}", fix="fetch it again, whole")


class BadVerifierKey(Invalid):
    """The text is not the public key of a log or a witness."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the verifier key {reason}", fix="write it as <name>+<8 hex digits>+<base64>, as its owner published it"
        )


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """The public key of a log or a witness, and its name."""

    name: str
    type: SignatureType
    public_key: bytes

    def __post_init__(self) -> None:
        require_key_name(self.name)
        if len(self.public_key) != PUBLIC_KEY_BYTES[self.type]:
            raise BadVerifierKey(f"has {len(self.public_key)} bytes, not {PUBLIC_KEY_BYTES[self.type]}")
        if self.type != SignatureType.COSIGNATURE_ML_DSA_44:
            try:
                parse_public_key(self.public_key)
            except BadKey as wrong:
                raise BadVerifierKey(wrong.says.removeprefix("the key ")) from None

    @property
    def key_id(self) -> bytes:
        """Four bytes that, with the name, say which key a signature is of."""
        return sha256(self.name.encode() + b"\n" + bytes([self.type]) + self.public_key)[:KEY_ID_BYTES]

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{to_base64(bytes([self.type]) + self.public_key)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key written as `text`, in its one form."""
        name, _, rest = text.partition("+")
        key_id, separator, encoded = rest.partition("+")
        if not separator:
            raise BadVerifierKey("does not have three parts separated by `+`")
        try:
            raw = from_base64(encoded)
        except BadKey as wrong:
            raise BadVerifierKey(f"is not valid: {wrong.says}") from None
        if not raw or raw[0] not in PUBLIC_KEY_BYTES:
            raise BadVerifierKey("is of a type that is not known here; 1, 4 and 6 are")
        key = cls(name, SignatureType(raw[0]), raw[1:])
        if key.key_id.hex() != key_id:
            raise BadVerifierKey(f"has the id {key.key_id.hex()}, and says another one")
        return key


class NoteSignature(NamedTuple):
    """One line of signature: who says that it is theirs, and the bytes."""

    name: str
    key_id: bytes
    signature: bytes

    def is_of(self, key: VerifierKey) -> bool:
        return self.name == key.name and self.key_id == key.key_id

    def to_line(self) -> str:
        return f"{SIGNATURE_MARK}{self.name} {to_base64(self.key_id + self.signature)}\n"


@dataclass(frozen=True, slots=True)
class SignedNote:
    """A text and the signatures under it, of which none is checked yet."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def encode(self) -> bytes:
        return f"{self.text}\n{''.join(signature.to_line() for signature in self.signatures)}".encode()

    def add(self, signatures: Sequence[NoteSignature]) -> "SignedNote":
        """The note with further signatures; one that is there is not repeated."""
        new = [signature for signature in signatures if signature not in self.signatures]
        return SignedNote(self.text, (*self.signatures, *new))

    def find(self, key: VerifierKey) -> list[NoteSignature]:
        return [signature for signature in self.signatures if signature.is_of(key)]


class NoteSigner:
    """The private key of a log."""

    __slots__ = ("_key", "verifier")

    def __init__(self, name: str, seed: Seed) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = VerifierKey(name, SignatureType.ED25519, self._key.public_key().public_bytes_raw())

    def sign(self, text: str) -> SignedNote:
        signature = NoteSignature(self.verifier.name, self.verifier.key_id, self._key.sign(text.encode()))
        return SignedNote(text, (signature,))


def require_key_name(name: str) -> str:
    if not name or "+" in name or not SPACES.isdisjoint(name) or any(character < " " for character in name):
        raise BadVerifierKey("needs a name without spaces, control characters and `+`")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise BadVerifierKey(f"has a name of more than {MAX_NAME_BYTES} bytes")
    return name


def parse_note(data: bytes) -> SignedNote:
    """The note these bytes are; `BadNote` unless writing it again gives the same bytes."""
    text, signature_block = _split_note(data)
    lines = signature_block.split("\n")
    if lines.pop() != "" or not lines:
        raise BadNote("has no signatures, or does not end with a line end")
    if len(lines) > MAX_SIGNATURES:
        raise BadNote(f"has more than {MAX_SIGNATURES} signatures")
    note = SignedNote(text, tuple(map(parse_signature_line, lines)))
    if note.encode() != data:
        raise BadNote("is not written in its one form")
    return note


def parse_signature_line(line: str) -> NoteSignature:
    """The signature of a line, without its line end."""
    name, separator, encoded = line.removeprefix(SIGNATURE_MARK).partition(" ")
    if not line.startswith(SIGNATURE_MARK) or not separator:
        raise BadNote("has a line after its text that is not a signature")
    try:
        raw = from_base64(encoded)
        require_key_name(name)
    except Invalid:
        raise BadNote("has a signature that is not valid base64, or of a name that is not valid") from None
    if len(raw) <= KEY_ID_BYTES:
        raise BadNote("has a signature that is too short")
    return NoteSignature(name, raw[:KEY_ID_BYTES], raw[KEY_ID_BYTES:])


def _split_note(data: bytes) -> tuple[str, str]:
    if len(data) > MAX_NOTE_BYTES:
        raise BadNote(f"has more than {MAX_NOTE_BYTES:,} bytes")
    try:
        whole = data.decode()
    except UnicodeDecodeError:
        raise BadNote("is not UTF-8") from None
    if any(character < " " and character != "\n" for character in whole):
        raise BadNote("contains a control character")
    text, separator, signature_block = whole.rpartition("\n\n")
    if not separator:
        raise BadNote("has no empty line between its text and its signatures")
    return f"{text}\n", signature_block


def verify_ed25519(key: VerifierKey, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key.public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def require_log_signature(note: SignedNote, key: VerifierKey) -> None:
    """Raise `BadNote` unless the log's key signed the text, and every signature that names the key is valid."""
    if key.type != SignatureType.ED25519:
        raise BadVerifierKey("of a log must be of type 1, Ed25519")
    signatures = note.find(key)
    if not signatures:
        raise BadNote(f"is not signed by `{key.name}` with the key {key.key_id.hex()}")
    if not all(verify_ed25519(key, note.text.encode(), signature.signature) for signature in signatures):
        raise BadNote(f"has a wrong signature of `{key.name}`")
