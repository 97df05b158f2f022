"""Cursors: where a list was left off, opaque and sealed.

Pure. A cursor is base64url of canonical `{id, m, t}`: the last row's time and id, and a seal over them, the tenant, the
route and its filters. It opens only the list it was made for; a changed bit, another tenant or another filter and it
opens nothing.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from bpc.core import canon
from bpc.core.errors import Invalid
from bpc.core.ids import TenantId, parse_uuid
from bpc.core.timestamps import format_time, parse_time

SEAL_BYTES: Final = 16
LONGEST: Final = 512
_DOMAIN: Final = b"BPC-CURSOR-1"


class BadCursor(Invalid):
    """Not a cursor that this list gave."""

    def __init__(self) -> None:
        super().__init__(
            "the cursor is not one that this list gave",
            fix="send `next_cursor` as it was answered, with the same filters, or leave it out to start again",
        )


@dataclass(frozen=True, slots=True)
class Place:
    """The last row of a page: what follows is older, or as old with a smaller id."""

    t: datetime
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """Which list a cursor is of."""

    tenant: TenantId
    route: str
    filters: Mapping[str, str]


def cursor_key(pepper: bytes) -> bytes:
    """The key that seals cursors, made of the installation's pepper."""
    return hmac.digest(pepper, _DOMAIN, "sha256")


def write_cursor(key: bytes, of: List, place: Place) -> str:
    """The cursor for what follows `place` in the list."""
    at = {"id": str(place.id), "t": format_time(place.t)}
    return urlsafe_b64encode(canon.encode({**at, "m": _seal(key, of, at)})).rstrip(b"=").decode()


def read_cursor(keys: Sequence[bytes], of: List, text: str) -> Place:
    """The place a cursor names; `BadCursor` unless `write_cursor` gave exactly this text for this list, by any key."""
    try:
        if len(text) > LONGEST:
            raise BadCursor
        found = canon.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if not isinstance(found, Mapping) or not all(isinstance(found.get(name), str) for name in ("id", "m", "t")):
            raise BadCursor
        place = Place(parse_time(str(found["t"])), parse_uuid(str(found["id"])))
    except (ValueError, Invalid):
        raise BadCursor from None
    # What decodes to the same place in another spelling is not a cursor either.
    if not any(hmac.compare_digest(write_cursor(key, of, place).encode(), text.encode()) for key in keys):
        raise BadCursor
    return place


def _seal(key: bytes, of: List, at: Mapping[str, str]) -> str:
    sealed = {**at, "filters": dict(of.filters), "route": of.route, "tenant": str(of.tenant)}
    return hmac.digest(key, canon.encode(sealed), "sha256")[:SEAL_BYTES].hex()
