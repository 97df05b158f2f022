"""/.well-known/bpc-keys.json: all public keys, for whoever checks a passport. They need no key of ours for that."""

import asyncio
import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bpc.api.bytes import IfNoneMatch, described, served
from bpc.api.routing import Routes
from bpc.api.service import Service
from bpc.core import canon
from bpc.core.key_set import key_of
from bpc.core.timestamps import format_time
from bpc.db import signing_keys

routes = Routes("Signing keys")

KEPT_SECONDS: Final = 1.0  # everybody may ask, so the database is not asked each time
# Short: a new key signs as soon as it is configured, and who checks fetches the set once more.
CACHE: Final = "public, max-age=300"


class PublicKeys:
    """The set of this installation, as bytes; who asks at the same moment gets the same answer."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = asyncio.Lock()
        self._content = b""
        self._until = 0.0

    async def content(self) -> bytes:
        async with self._lock:
            if time.monotonic() >= self._until:
                self._content = await self._read()
                self._until = time.monotonic() + KEPT_SECONDS
            return self._content

    async def _read(self) -> bytes:
        async with self._service.database.plain() as conn:
            found = await signing_keys.every(conn)
        keys = [
            key_of(
                key.key_id,
                key.public_key,
                status=key.status,
                created_at=format_time(key.created_at),
                retired_at=None if key.retired_at is None else format_time(key.retired_at),
            )
            for key in found
        ]
        return canon.encode({"keys": keys})


@routes.open("/.well-known/bpc-keys.json", response_class=Response, responses=described("application/json"))
async def get_public_keys(request: Request, if_none_match: IfNoneMatch = None) -> Response:
    """Get all public keys that passports are signed with, retired ones too. `bpc verify --keys` takes the answer."""
    keys: PublicKeys = request.app.state.public_keys
    return served(await keys.content(), "application/json", if_none_match, cache=CACHE)
