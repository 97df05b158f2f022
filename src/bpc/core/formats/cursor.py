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

from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import TenantId, parse_uuid
from bpc.core.formats.timestamps import format_time, parse_time

SEAL_BYTES: Final = 16
MAX_CURSOR_LENGTH: Final = 512
_DOMAIN: Final = b"BPC-CURSOR-1"


class BadCursor(Invalid):
    """Not a cursor that this list gave."""

    def __init__(self) -> None:
        super().__init__(
            "the cursor is not one that this list gave",
            fix="send `next_cursor` as it was answered, with the same filters, or leave it out to start again",
        )


@dataclass(frozen=True, slots=True)
class CursorPosition:
    """The last row of a page: what follows is older, or as old with a smaller id."""

    moment: datetime
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorScope:
    """Which list a cursor is of."""

    tenant: TenantId
    route: str
    filters: Mapping[str, str]


def derive_cursor_key(pepper: bytes) -> bytes:
    """The key that seals cursors, made of the installation's pepper."""
    return hmac.digest(pepper, _DOMAIN, "sha256")


def write_cursor(key: bytes, scope: CursorScope, position: CursorPosition) -> str:
    """The cursor for what follows `position` in the list."""
    members = {"id": str(position.id), "t": format_time(position.moment)}
    return (
        urlsafe_b64encode(canonical_json.encode({**members, "m": _compute_seal(key, scope, members)}))
        .rstrip(b"=")
        .decode()
    )


def read_cursor(keys: Sequence[bytes], scope: CursorScope, text: str) -> CursorPosition:
    """The place a cursor names; `BadCursor` unless `write_cursor` gave exactly this text for this list, by any key."""
    try:
        if len(text) > MAX_CURSOR_LENGTH:
            raise BadCursor
        members = canonical_json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if not isinstance(members, Mapping) or not all(isinstance(members.get(name), str) for name in ("id", "m", "t")):
            raise BadCursor
        position = CursorPosition(parse_time(str(members["t"])), parse_uuid(str(members["id"])))
    except (ValueError, Invalid):
        raise BadCursor from None
    # What decodes to the same place in another spelling is not a cursor either.
    if not any(hmac.compare_digest(write_cursor(key, scope, position).encode(), text.encode()) for key in keys):
        raise BadCursor
    return position


def _compute_seal(key: bytes, scope: CursorScope, members: Mapping[str, str]) -> str:
    sealed_members = {**members, "filters": dict(scope.filters), "route": scope.route, "tenant": str(scope.tenant)}
    return hmac.digest(key, canonical_json.encode(sealed_members), "sha256")[:SEAL_BYTES].hex()
