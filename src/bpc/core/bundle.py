"""Bundle, BPC-BUNDLE-1: everything a stranger needs to check a passport, in one zip.

Pure. Equal contents give equal bytes (bpc.core.archive). Reading refuses whatever writing would not have made: another
entry, a missing one, one that is too large, a byte between them. What the entries say is left to verification.

    Compiled, signed receipt, key ── bundle_of ──► Bundle ── write_bundle ──► bytes
    bytes ── read_bundle ──► Bundle ── manifest ──► Manifest
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from bpc.core import canon
from bpc.core.archive import BadArchive, read_archive, write_archive
from bpc.core.canon import NotCanonical
from bpc.core.errors import Invalid
from bpc.core.ids import PassportVersionId, parse_uuid
from bpc.core.qr import qr_text
from bpc.core.receipt import MAX_NAME, Receipt, is_name, read_receipt
from bpc.core.signing import PublicKey, from_base64, to_base64

VERSION: Final = "BPC-BUNDLE-1"
KEY_BYTES: Final = 32
EVENTS: Final = "events.jsonl"
# Each entry and the bytes it may have. The artifacts' are those that configuration cannot pass.
ENTRIES: Final[Mapping[str, int]] = {
    EVENTS: 1 << 26,
    "facts.jsonl": 1 << 26,
    "manifest.json": 1 << 12,
    "payload.json": 5_000_000,
    "proof.json": 20_000_000,
    "qr.png": 1 << 20,
    "qr.txt": 1 << 10,
    "receipt.json": 500_000,
    "rules.bpc": 1 << 20,
    "snapshot.json": 1 << 26,
    "tests.bpc": 1 << 20,
}
MANIFEST_MEMBERS: Final = ("bundle_version", "passport_version_id", "public_key", "signing_key_id")

T = TypeVar("T")


class BadBundle(Invalid):
    """The bytes are not a bundle; `entry` is the part that is wrong, where one is."""

    def __init__(self, reason: str, *, entry: str | None = None) -> None:
        super().__init__(f"the bundle {reason}", details={} if entry is None else {"entry": entry[:80]})
        self.entry = entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Which version the bundle is of, and under which key it says it is signed."""

    passport_version_id: PassportVersionId
    signing_key_id: str
    public_key: PublicKey


@dataclass(frozen=True, slots=True)
class Bundle:
    """The entries of a bundle by name: all that `ENTRIES` names, `events.jsonl` only from a database."""

    entries: Mapping[str, bytes]

    def __post_init__(self) -> None:
        for name, content in self.entries.items():
            if name not in ENTRIES:
                raise BadBundle(f"has an entry `{name[:80]}` that bundles do not have", entry=name)
            if len(content) > ENTRIES[name]:
                says = f"has a `{name}` of {len(content):,} bytes, and at most {ENTRIES[name]:,} are allowed"
                raise BadBundle(says, entry=name)
        missing = next((name for name in ENTRIES if name not in self.entries and name != EVENTS), None)
        if missing is not None:
            raise BadBundle(f"has no `{missing}`", entry=missing)

    def __getitem__(self, name: str) -> bytes:
        return self.entries[name]

    @property
    def events(self) -> bytes | None:
        return self.entries.get(EVENTS)

    def manifest(self) -> Manifest:
        return read_manifest(self.entries["manifest.json"])


def bundle_of(
    *,
    payload: bytes,
    proof: bytes,
    receipt: bytes,
    snapshot: bytes,
    facts: bytes,
    rules: bytes,
    tests: bytes,
    public_key: PublicKey,
    qr_png: bytes,
    events: bytes | None = None,
) -> Bundle:
    """The bundle of a signed passport version; ids and names are those of its receipt."""
    known = read_receipt(receipt)
    if known.signature is None:
        raise BadBundle("needs a signed receipt", entry="receipt.json")
    entries = {
        "facts.jsonl": facts,
        "manifest.json": _manifest(known, public_key),
        "payload.json": payload,
        "proof.json": proof,
        "qr.png": qr_png,
        "qr.txt": qr_text_of(known).encode(),
        "receipt.json": receipt,
        "rules.bpc": rules,
        "snapshot.json": snapshot,
        "tests.bpc": tests,
    }
    return Bundle(entries if events is None else {**entries, EVENTS: events})


def qr_text_of(receipt: Receipt) -> str:
    """What the QR code of a passport version says."""
    return qr_text(receipt.passport_version_id, receipt.payload_hash, receipt.proof_root_hash, receipt.hash())


def write_bundle(bundle: Bundle) -> bytes:
    return write_archive(bundle.entries)


def read_bundle(data: bytes) -> Bundle:
    """The bundle these bytes are; `BadBundle` unless writing it again gives exactly these bytes."""
    try:
        return Bundle(read_archive(data))
    except BadArchive as wrong:
        raise BadBundle(f"is not one of ours: {wrong.says}", entry=wrong.entry) from None


def _manifest(receipt: Receipt, public_key: PublicKey) -> bytes:
    return canon.encode_typed(
        {
            "bundle_version": VERSION,
            "passport_version_id": str(receipt.passport_version_id),
            "public_key": to_base64(public_key),
            "signing_key_id": receipt.signing_key_id,
        }
    )


def read_manifest(data: bytes) -> Manifest:
    """The manifest these bytes are, canonical and with exactly its members. The key is not yet one to rely on."""
    try:
        found = canon.decode(data)
    except NotCanonical as wrong:
        raise _bad_manifest(f"is not canonical: {wrong.says}") from None
    if not isinstance(found, Mapping) or tuple(sorted(found)) != MANIFEST_MEMBERS:
        raise _bad_manifest(f"is not an object of {', '.join(MANIFEST_MEMBERS)}")
    if found["bundle_version"] != VERSION:
        raise _bad_manifest(f"does not say `{VERSION}`")
    return Manifest(
        passport_version_id=PassportVersionId(_member(found, "passport_version_id", parse_uuid)),
        signing_key_id=_member(found, "signing_key_id", _key_name),
        public_key=_member(found, "public_key", _public_key),
    )


def _member(found: Mapping[str, object], name: str, read: Callable[[str], T]) -> T:
    given = found[name]
    if not isinstance(given, str):
        raise _bad_manifest(f"has a `{name}` that is not a text")
    try:
        return read(given)
    except Invalid as wrong:
        raise _bad_manifest(f"has a wrong `{name}`: {wrong.says}") from None


def _key_name(text: str) -> str:
    if not is_name(text):
        raise Invalid(f"a name has 1 to {MAX_NAME} characters and no U+0000")
    return text


def _public_key(text: str) -> PublicKey:
    raw = from_base64(text)
    if len(raw) != KEY_BYTES:
        raise Invalid(f"it has {len(raw)} bytes, not {KEY_BYTES}")
    return PublicKey(raw)


def _bad_manifest(reason: str) -> BadBundle:
    return BadBundle(f"has a manifest that {reason}", entry="manifest.json")
