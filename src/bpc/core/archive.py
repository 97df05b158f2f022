"""Zip archives with one form: named byte strings in, the one file that holds them out.

Pure. Entries are stored, sorted by name, dated 1980-01-01 00:00, with every header field fixed, so that equal
entries give equal bytes on every machine and every Python. Reading is strict: a file is refused unless writing its
entries again gives exactly its bytes, so nothing hides in headers, gaps, comments or doubled entries. The numbers
are those of PKWARE's APPNOTE 6.3.3, sections 4.3.7, 4.3.12 and 4.3.16.
"""

import struct
from binascii import crc32
from collections.abc import Mapping
from typing import Final, NamedTuple

from bpc.core.errors import Invalid

MAX_BYTES: Final = 1 << 28

_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL: Final = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END: Final = struct.Struct("<4sHHHHIIH")
_LOCAL_MARK: Final = b"PK\x03\x04"
_CENTRAL_MARK: Final = b"PK\x01\x02"
_END_MARK: Final = b"PK\x05\x06"

_NEEDED: Final = 20  # version 2.0 of the format
_MADE_BY: Final = 3 << 8 | 20  # Unix, so that the rights below are read; version 2.0
_NO_FLAGS: Final = 0
_STORED: Final = 0
_MIDNIGHT: Final = 0
_DAY: Final = 1 << 5 | 1  # 1980-01-01, the first day there is
_RIGHTS: Final = 0o100644 << 16


class BadArchive(Invalid):
    """The bytes are not a zip archive in its one form."""

    def __init__(self, reason: str, *, entry: str | None = None) -> None:
        super().__init__(f"the archive {reason}", details={} if entry is None else {"entry": entry})
        self.entry = entry


class _Found(NamedTuple):
    name: str
    content: bytes
    crc: int
    end: int


def write_archive(entries: Mapping[str, bytes]) -> bytes:
    """The archive of `entries`, whose names are plain ASCII."""
    local, central = bytearray(), bytearray()
    for name in sorted(entries):
        content, raw = entries[name], name.encode("ascii")
        about = (_NO_FLAGS, _STORED, _MIDNIGHT, _DAY, crc32(content), len(content), len(content), len(raw), 0)
        at = len(local)
        local += _LOCAL.pack(_LOCAL_MARK, _NEEDED, *about) + raw + content
        central += _CENTRAL.pack(_CENTRAL_MARK, _MADE_BY, _NEEDED, *about, 0, 0, 0, _RIGHTS, at) + raw
    end = _END.pack(_END_MARK, 0, 0, len(entries), len(entries), len(central), len(local), 0)
    made = bytes(local + central + end)
    if len(made) > MAX_BYTES:
        raise BadArchive(f"would have {len(made):,} bytes, and at most {MAX_BYTES:,} are allowed")
    return made


def read_archive(data: bytes) -> dict[str, bytes]:
    """The entries of an archive that `write_archive` wrote; `BadArchive` says what about another file is not so."""
    if len(data) > MAX_BYTES:
        raise BadArchive(f"has {len(data):,} bytes, and at most {MAX_BYTES:,} are allowed")
    entries: dict[str, bytes] = {}
    at = 0
    while data.startswith(_LOCAL_MARK, at):
        found = _entry(data, at)
        if entries and found.name <= next(reversed(entries)):
            raise BadArchive(f"has `{found.name}` twice or out of order", entry=found.name)
        if crc32(found.content) != found.crc:
            raise BadArchive(f"has a `{found.name}` that does not fit its checksum", entry=found.name)
        entries[found.name] = found.content
        at = found.end
    if at == 0:
        raise BadArchive("does not start with an entry")
    _refuse_other_form(data, write_archive(entries), entries, directory_at=at)
    return entries


def _entry(data: bytes, at: int) -> _Found:
    if len(data) < at + _LOCAL.size:
        raise BadArchive("ends inside an entry")
    *_, crc, size, _, name_length, extra_length = _LOCAL.unpack_from(data, at)
    start = at + _LOCAL.size + name_length + extra_length
    raw, content = data[at + _LOCAL.size : at + _LOCAL.size + name_length], data[start : start + size]
    if len(content) != size or not raw.isascii():
        raise BadArchive("ends inside an entry, or names one in other characters than ASCII")
    return _Found(raw.decode("ascii"), content, crc, start + size)


def _refuse_other_form(data: bytes, again: bytes, entries: Mapping[str, bytes], *, directory_at: int) -> None:
    if data == again:
        return
    differs = next((at for at, (one, other) in enumerate(zip(data, again, strict=False)) if one != other), None)
    if differs is None:
        raise BadArchive(f"has {len(data):,} bytes, and its entries make {len(again):,}")
    if differs >= directory_at:
        raise BadArchive(f"has a directory that differs from the one its entries make, at byte {differs:,}")
    end = 0
    for name, content in entries.items():
        end += _LOCAL.size + len(name) + len(content)
        if differs < end:
            raise BadArchive(f"has another header of `{name}` than its content makes, at byte {differs:,}", entry=name)
    raise BadArchive(f"differs from what its entries make, at byte {differs:,}")
