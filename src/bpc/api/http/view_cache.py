"""Views of issued versions, made once and kept: a signed version, and so its view for an audience, never changes.

    load_view ─► is the version there? ─► kept, or made from its bundle beside the event loop and kept

Whoever calls has decided before that its caller may see the view. Views that were not asked for the longest time make
room for others.
"""

import asyncio
from collections import OrderedDict
from typing import Final

from bpc.core.exports.disclosure import make_view
from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.storage.connection import Connection
from bpc.storage.passports import exports, passport_versions

MAX_BYTES: Final = 32 * 1024 * 1024
ViewKey = tuple[TenantId, PassportVersionId, str]


class ViewCache:
    """The views that were asked for lately, at most `max_bytes` of them."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self.size = 0
        self._views: OrderedDict[ViewKey, bytes] = OrderedDict()

    async def load_view(self, conn: Connection, tenant: TenantId, version: PassportVersionId, audience: str) -> bytes:
        """Return what an audience sees of a version (BPC-VIEW-1).

        Raises `VersionNotIssued` if it is not signed yet, and what `get_version` raises if it is not there.
        """
        key = (tenant, version, audience)
        await passport_versions.get_version(conn, tenant, version)  # what retention removed is gone here too
        view = self._views.get(key)
        if view is None:
            bundle = await exports.load_bundle(conn, tenant, version, with_events=False)
            view = await asyncio.to_thread(make_view, bundle, audience)
            self._keep(key, view)
        else:
            self._views.move_to_end(key)
        return view

    def find(self, tenant: TenantId, version: PassportVersionId, audience: str) -> bytes | None:
        """The view, if it is kept. Whether the version is still there is for the caller to ask."""
        key = (tenant, version, audience)
        view = self._views.get(key)
        if view is not None:
            self._views.move_to_end(key)
        return view

    def _keep(self, key: ViewKey, view: bytes) -> None:
        self.size += len(view) - len(self._views.pop(key, b""))
        self._views[key] = view
        while self.size > self._max_bytes:
            _, oldest = self._views.popitem(last=False)
            self.size -= len(oldest)
