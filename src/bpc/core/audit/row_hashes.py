"""Hashes of many rows that one event tells: the facts of a document, the fields of rules.

Pure. A row is its values, joined by the unit separator; rows are sorted by their UTF-8 bytes and joined by the record
separator. So a database can compute the same hash with `string_agg` in the collation C.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from bpc.core.formats.hashes import Digest, sha256

UNIT_SEPARATOR: Final = "\x1f"
RECORD_SEPARATOR: Final = "\x1e"


def hash_rows(rows: Iterable[Sequence[str | int | bool | None]]) -> Digest:
    """SHA-256 of these rows in their one order; equal rows count once."""
    lines = {UNIT_SEPARATOR.join(map(_to_text, row)).encode() for row in rows}
    return sha256(RECORD_SEPARATOR.encode().join(sorted(lines)))


def hash_json(text: str) -> Digest:
    """SHA-256 of JSON, however its members are ordered and spaced. Numbers count as they are written."""
    document = json.loads(text, parse_float=str, parse_int=str)
    return sha256(json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode())


def _to_text(value: str | int | bool | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
