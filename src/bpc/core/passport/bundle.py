"""Bundle, BPC-BUNDLE-1 and -2: everything that is needed to check a passport, in one zip file with one form.

Pure. Equal contents give equal bytes: entries by name, not compressed, without dates and rights of their own. Reading
refuses every file that writing would not have made: an unknown entry, a missing one, one that is too large, bytes
between them. What the entries say is left to verification.

BPC-BUNDLE-2 is a bundle with the proof that the passport is in the transparency log, or with the signed statement that
names where its status is, or with both; without them it is BPC-BUNDLE-1.

A bundle may hold the files that are attached to the passport, each named by its hash: `attachments/<sha256>`.

    passport, signed receipt, key ── build_bundle ──► Bundle ── write_bundle ──► bytes
    bytes ── read_bundle ──► Bundle
"""

import re
import struct
from binascii import crc32
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from bpc.core.audit.signing import PublicKey, from_base64, to_base64
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import NotCanonical, find_first_difference
from bpc.core.formats.ids import PassportVersionId, parse_uuid
from bpc.core.passport.payload import MAX_PAYLOAD_BYTES
from bpc.core.passport.proof import MAX_PROOF_BYTES
from bpc.core.passport.qr import format_qr_text
from bpc.core.passport.receipt import MAX_RECEIPT_BYTES, Receipt, read_receipt, require_name

MAX_ARCHIVE_BYTES: Final = 1 << 28

_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL: Final = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END: Final = struct.Struct("<4sHHHHIIH")
_LOCAL_SIGNATURE: Final = b"PK\x03\x04"
_CENTRAL_SIGNATURE: Final = b"PK\x01\x02"
_END_SIGNATURE: Final = b"PK\x05\x06"

_VERSION_NEEDED: Final = 20  # version 2.0 of the format
_VERSION_MADE_BY: Final = 3 << 8 | 20  # Unix, so that the rights below are read; version 2.0
_NO_FLAGS: Final = 0
_STORED: Final = 0
_DOS_TIME: Final = 0
_DOS_DATE: Final = 1 << 5 | 1  # 1980-01-01, the first day there is
_UNIX_MODE: Final = 0o100644 << 16


class BadBundle(Invalid):
    """The bytes are not a bundle; `entry` is the part that is wrong, where one is."""

    def __init__(self, reason: str, *, entry: str | None = None) -> None:
        super().__init__(f"the bundle {reason}", details={} if entry is None else {"entry": entry[:80]})
        self.entry = entry


def _archive_error(reason: str, *, entry: str | None = None) -> BadBundle:
    return BadBundle(f"is not valid: the archive {reason}", entry=entry)


class _ZipEntry(NamedTuple):
    name: str
    content: bytes
    crc: int
    end: int


def write_archive(entries: Mapping[str, bytes]) -> bytes:
    """The archive of `entries`, whose names are plain ASCII."""
    local, central = bytearray(), bytearray()
    for name in sorted(entries):
        content, raw_name = entries[name], name.encode("ascii")
        common_fields = (
            _NO_FLAGS,
            _STORED,
            _DOS_TIME,
            _DOS_DATE,
            crc32(content),
            len(content),
            len(content),
            len(raw_name),
            0,
        )
        offset = len(local)
        local += _LOCAL.pack(_LOCAL_SIGNATURE, _VERSION_NEEDED, *common_fields) + raw_name + content
        central += (
            _CENTRAL.pack(
                _CENTRAL_SIGNATURE, _VERSION_MADE_BY, _VERSION_NEEDED, *common_fields, 0, 0, 0, _UNIX_MODE, offset
            )
            + raw_name
        )
    end = _END.pack(_END_SIGNATURE, 0, 0, len(entries), len(entries), len(central), len(local), 0)
    archive = bytes(local + central + end)
    if len(archive) > MAX_ARCHIVE_BYTES:
        raise _archive_error(f"would have {len(archive):,} bytes, and at most {MAX_ARCHIVE_BYTES:,} are allowed")
    return archive


def measure_archive(sizes: Mapping[str, int]) -> int:
    """The bytes of an archive of entries with these names and sizes."""
    headers = _LOCAL.size + _CENTRAL.size
    return _END.size + sum(headers + 2 * len(name) + size for name, size in sizes.items())


def read_archive(data: bytes) -> dict[str, bytes]:
    """The entries of an archive that `write_archive` wrote; `BadBundle` says what is wrong with any other file."""
    if len(data) > MAX_ARCHIVE_BYTES:
        raise _archive_error(f"has {len(data):,} bytes, and at most {MAX_ARCHIVE_BYTES:,} are allowed")
    entries: dict[str, bytes] = {}
    offset = 0
    while data.startswith(_LOCAL_SIGNATURE, offset):
        entry = _read_entry(data, offset)
        if entries and entry.name <= next(reversed(entries)):
            raise _archive_error(f"has `{entry.name}` twice or out of order", entry=entry.name)
        if crc32(entry.content) != entry.crc:
            raise _archive_error(f"has a wrong checksum for `{entry.name}`", entry=entry.name)
        entries[entry.name] = entry.content
        offset = entry.end
    if offset == 0:
        raise _archive_error("does not start with an entry")
    _require_same_bytes(data, write_archive(entries), entries, directory_offset=offset)
    return entries


def _read_entry(data: bytes, offset: int) -> _ZipEntry:
    if len(data) < offset + _LOCAL.size:
        raise _archive_error("ends inside an entry")
    *_, crc, size, _, name_length, extra_length = _LOCAL.unpack_from(data, offset)
    start = offset + _LOCAL.size + name_length + extra_length
    raw_name, content = data[offset + _LOCAL.size : offset + _LOCAL.size + name_length], data[start : start + size]
    if len(content) != size:
        raise _archive_error("ends inside an entry")
    if not raw_name.isascii():
        raise _archive_error("has an entry whose name is not ASCII")
    return _ZipEntry(raw_name.decode("ascii"), content, crc, start + size)


def _require_same_bytes(data: bytes, rewritten: bytes, entries: Mapping[str, bytes], *, directory_offset: int) -> None:
    if data == rewritten:
        return
    difference = find_first_difference(data, rewritten)
    if difference == min(len(data), len(rewritten)):
        raise _archive_error(f"has {len(data):,} bytes; its entries take {len(rewritten):,}")
    if difference >= directory_offset:
        raise _archive_error(f"has a directory that is not in canonical form, at byte {difference:,}")
    end = 0
    for name, content in entries.items():
        end += _LOCAL.size + len(name) + len(content)
        if difference < end:
            raise _archive_error(
                f"has a header of `{name}` that is not in canonical form, at byte {difference:,}", entry=name
            )
    raise _archive_error(f"is not in canonical form, at byte {difference:,}")


BUNDLE_VERSION: Final = "BPC-BUNDLE-1"
LOGGED_BUNDLE_VERSION: Final = "BPC-BUNDLE-2"
PUBLIC_KEY_BYTES: Final = 32
EVENTS_ENTRY: Final = "events.jsonl"
LOG_PROOF_ENTRY: Final = "passport.tlog-proof"
STATUS_ENTRY: Final = "status.json"
ENTRIES_OF_VERSION_2: Final = (LOG_PROOF_ENTRY, STATUS_ENTRY)
OPTIONAL_ENTRIES: Final = (EVENTS_ENTRY, *ENTRIES_OF_VERSION_2)
# Each entry and the bytes it may have at most.
ENTRIES: Final[Mapping[str, int]] = {
    EVENTS_ENTRY: 1 << 26,
    "facts.jsonl": 1 << 26,
    "manifest.json": 1 << 12,
    LOG_PROOF_ENTRY: 1 << 20,
    "payload.json": MAX_PAYLOAD_BYTES,
    "proof.json": MAX_PROOF_BYTES,
    "qr.png": 1 << 20,
    "qr.txt": 1 << 10,
    "receipt.json": MAX_RECEIPT_BYTES,
    "rules.bpc": 1 << 20,
    "snapshot.json": 1 << 26,
    STATUS_ENTRY: 1 << 14,
    "tests.bpc": 1 << 20,
}
ATTACHMENT_PREFIX: Final = "attachments/"
MAX_ATTACHMENT_BYTES: Final = 1 << 26
_ATTACHMENT_NAME: Final = re.compile(f"{ATTACHMENT_PREFIX}[0-9a-f]{{64}}")
MANIFEST_MEMBERS: Final = ("bundle_version", "passport_version_id", "public_key", "signing_key_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleManifest:
    """Which version the bundle is of, and under which key it says it is signed."""

    passport_version_id: PassportVersionId
    signing_key_id: str
    public_key: PublicKey
    bundle_version: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """The entries of a bundle by name: all that `ENTRIES` names but `OPTIONAL_ENTRIES`; attachments.

    `events.jsonl`, the log proof and the statement of the status come only from a database.
    """

    entries: Mapping[str, bytes]

    def __post_init__(self) -> None:
        for name, content in self.entries.items():
            largest = MAX_ATTACHMENT_BYTES if _ATTACHMENT_NAME.fullmatch(name) else ENTRIES.get(name)
            if largest is None:
                raise BadBundle(f"has an unknown entry `{name[:80]}`", entry=name)
            if len(content) > largest:
                says = f"has a `{name}` of {len(content):,} bytes, and at most {largest:,} are allowed"
                raise BadBundle(says, entry=name)
        missing = next((name for name in ENTRIES if name not in self.entries and name not in OPTIONAL_ENTRIES), None)
        if missing is not None:
            raise BadBundle(f"has no `{missing}`", entry=missing)

    def __getitem__(self, name: str) -> bytes:
        return self.entries[name]


def build_bundle(
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
    log_proof: bytes | None = None,
    status: bytes | None = None,
) -> Bundle:
    """The bundle of a signed passport version; ids and names are those of its receipt."""
    parsed_receipt = read_receipt(receipt)
    if parsed_receipt.signature is None:
        raise BadBundle("needs a signed receipt", entry="receipt.json")
    entries = {
        "facts.jsonl": facts,
        "manifest.json": _encode_manifest(
            parsed_receipt, public_key, BUNDLE_VERSION if log_proof is status is None else LOGGED_BUNDLE_VERSION
        ),
        "payload.json": payload,
        "proof.json": proof,
        "qr.png": qr_png,
        "qr.txt": format_receipt_qr_text(parsed_receipt).encode(),
        "receipt.json": receipt,
        "rules.bpc": rules,
        "snapshot.json": snapshot,
        "tests.bpc": tests,
    }
    optional = {EVENTS_ENTRY: events, LOG_PROOF_ENTRY: log_proof, STATUS_ENTRY: status}
    return Bundle(entries | {name: content for name, content in optional.items() if content is not None})


def add_attachments(bundle: Bundle, files: Mapping[str, bytes]) -> Bundle:
    """The bundle with attached files, which are given by their hashes."""
    return Bundle({**bundle.entries, **{f"{ATTACHMENT_PREFIX}{digest}": content for digest, content in files.items()}})


def format_receipt_qr_text(receipt: Receipt) -> str:
    """What the QR code of a passport version says."""
    return format_qr_text(receipt.passport_version_id, receipt.payload_hash, receipt.proof_root_hash, receipt.hash())


def write_bundle(bundle: Bundle) -> bytes:
    return write_archive(bundle.entries)


def read_bundle(data: bytes) -> Bundle:
    """The bundle these bytes are; `BadBundle` unless writing it again gives exactly these bytes."""
    return Bundle(read_archive(data))


def _encode_manifest(receipt: Receipt, public_key: PublicKey, bundle_version: str) -> bytes:
    return canonical_json.encode_typed(
        {
            "bundle_version": bundle_version,
            "passport_version_id": str(receipt.passport_version_id),
            "public_key": to_base64(public_key),
            "signing_key_id": receipt.signing_key_id,
        }
    )


def read_manifest(data: bytes) -> BundleManifest:
    """The manifest these bytes are, canonical and with exactly its members. The key is not yet one to rely on."""
    try:
        document = canonical_json.decode(data)
    except NotCanonical as wrong:
        raise _manifest_error(f"is not canonical: {wrong.says}") from None
    if not isinstance(document, Mapping) or tuple(sorted(document)) != MANIFEST_MEMBERS:
        raise _manifest_error(f"is not an object of {', '.join(MANIFEST_MEMBERS)}")
    bundle_version = document["bundle_version"]
    if bundle_version not in (BUNDLE_VERSION, LOGGED_BUNDLE_VERSION):
        raise _manifest_error(f"must have `{BUNDLE_VERSION}` or `{LOGGED_BUNDLE_VERSION}` as its `bundle_version`")
    return BundleManifest(
        passport_version_id=_read_member(document, "passport_version_id", parse_uuid),
        signing_key_id=_read_member(document, "signing_key_id", require_name),
        public_key=PublicKey(_read_member(document, "public_key", partial(from_base64, size=PUBLIC_KEY_BYTES))),
        bundle_version=str(bundle_version),
    )


def _read_member(document: Mapping[str, object], name: str, parse: Callable[[str], Any]) -> Any:
    value = document[name]
    if not isinstance(value, str):
        raise _manifest_error(f"has a `{name}` that is not a text")
    try:
        return parse(value)
    except Invalid as wrong:
        raise _manifest_error(f"has an invalid `{name}`: {wrong.says}") from None


def _manifest_error(reason: str) -> BadBundle:
    return BadBundle(f"has a manifest that {reason}", entry="manifest.json")
