"""Payload, BPC-PASSPORT-1: the passport itself. Computed fields in, canonical bytes out.

Pure. Fields nest by their paths; the checker has seen to it that no path is the beginning of another, so a path
leads either to a value or further down, never both.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.ids import PassportId, PassportVersionId
from bpc.core.rules.compliance import Compliance
from bpc.core.timestamps import format_time

VERSION: Final = "BPC-PASSPORT-1"


def payload_bytes(
    *,
    access: Mapping[str, Sequence[str]],
    battery_product: Mapping[str, Json],
    compliance: Iterable[Compliance],
    fields: Mapping[str, Json],
    issued_at: datetime,
    passport_id: PassportId,
    passport_version_id: PassportVersionId,
    salt: str,
) -> bytes:
    """The canonical payload. `access` and `fields` go by path; values are as passports write them."""
    return canon.encode_typed(
        {
            "access": {path: sorted(audiences) for path, audiences in access.items()},
            "battery_product": battery_product,
            "compliance": [entry.as_json() for entry in compliance],
            "fields": nested(fields),
            "issued_at": format_time(issued_at),
            "passport_id": str(passport_id),
            "passport_version_id": str(passport_version_id),
            "payload_version": VERSION,
            "salt": salt,
        }
    )


def nested(fields: Mapping[str, Json]) -> dict[str, Json]:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`."""
    top: dict[str, Any] = {}
    for path, value in fields.items():
        *folders, name = path.split(".")
        inside = top
        for folder in folders:
            inside = inside.setdefault(folder, {})
        inside[name] = value
    return top


def at_path(fields: Json, path: str) -> tuple[Json, ...]:
    """The value that nested `fields` have at `path`, in a tuple; nothing where there is none."""
    here = fields
    for name in path.split("."):
        if not isinstance(here, Mapping) or name not in here:
            return ()
        here = here[name]
    return (here,)
