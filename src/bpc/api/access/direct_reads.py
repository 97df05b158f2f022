"""Stored bytes, answered beside the framework: one statement, and the bytes as they are in the row.

    known caller ─► may, as far as is known ─► turn and share ─► read_version_at_once ─► answer
          └── anything else ─► None: the route answers, as if this were not here

Only what is certain is answered here: the caller is known and allowed, nothing of that has changed, and the version is
there. An unknown key, a denial, a parameter that is not expected or an id that is none is left to the route, which says
what is wrong and records it. So both give the same answers, and this one is only faster.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from bpc.api.access.admission import find_address
from bpc.api.access.admitted_callers import AccessRule, find_known_caller
from bpc.api.access.answer_memory import hold_answer
from bpc.api.access.caller_memory import Credential
from bpc.api.http.error_responses import RequestTimeout
from bpc.api.http.etag import JSON, serve_bytes
from bpc.api.http.request_context import Service
from bpc.core.formats.ids import PassportVersionId
from bpc.runtime import clock
from bpc.storage.access.api_requests import Caller
from bpc.storage.connection import AccessChanged
from bpc.storage.passports.version_reads import VersionRead, read_version_at_once

MAX_ETAG_BYTES: Final = 1000  # as the routes have it
AUDIENCE: Final = re.compile(b"audience=(public|interest|authority)")
LOWER_UUID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class DirectRead:
    """A route that serves the stored bytes of a version; for `view`, those that are kept of it."""

    which: Literal["payload", "receipt", "view"]

    async def answer(self, scope: Mapping[str, Any], permission: str, resource: str | None) -> Response | None:
        """The answer, or None if the route has to give it. What alternatives of the permission show, routes decide."""
        target = _read_request(scope, self.which)
        service: Service = scope["app"].state.service
        entry = None if target is None else service.callers.find_text(target.key, clock.now())
        if target is None or entry is None:
            return None
        request = Request(scope)  # type: ignore[arg-type]
        request.state.now = clock.now()
        caller = find_known_caller(service, request, entry[0], AccessRule(permission, resource, ()))
        if caller is None:
            return None
        view = service.views.find(caller.tenant_id, target.version, target.audience)
        if target.audience and view is None:
            return None
        row = await self._read_row(service, request, entry[0], caller, target.version)
        if row is None or row.content is None:
            return None
        if view is None:
            answer = serve_bytes(row.content, JSON, target.etag)
        else:
            answer = serve_bytes(view, JSON, target.etag, headers_beside={"X-Waived-Entries": str(row.waived_count)})
        return hold_answer(service.answer_memory, caller.tenant_id, answer)

    async def _read_row(
        self, service: Service, request: Request, key: Credential, caller: Caller, version: PassportVersionId
    ) -> VersionRead | None:
        if caller.access_version is None:
            return None
        seconds = service.settings.request_timeout_seconds
        try:
            async with (
                asyncio.timeout(seconds),
                service.admission.admit(key, find_address(request.scope), request.state.meter),
            ):
                return await read_version_at_once(
                    service.database, caller.tenant_id, caller.access_version, version, self.which
                )
        except AccessChanged:
            service.callers.forget(key)
            return None
        except TimeoutError:
            raise RequestTimeout(seconds) from None


class _ReadRequest(NamedTuple):
    """What is asked for: `audience` is empty unless it is a view."""

    key: str
    etag: str | None
    version: PassportVersionId
    audience: str


def _read_request(scope: Mapping[str, Any], which: str) -> _ReadRequest | None:
    """What a request asks for; None if anything of it is not as it usually is."""
    version = scope["path_params"].get("passport_version_id", "")
    headers = _read_headers(scope["headers"])
    query = scope["query_string"]
    is_expected = AUDIENCE.fullmatch(query) is not None if which == "view" else not query
    if scope["method"] != "GET" or headers is None or not is_expected or not LOWER_UUID.fullmatch(version):
        return None
    return _ReadRequest(*headers, PassportVersionId(UUID(version)), query[len("audience=") :].decode())


def _read_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, str | None] | None:
    """The key and the ETag that the client has; None if one is sent twice, is too long or is not as expected."""
    key = etag = None
    for name, value in headers:
        if name == b"authorization":
            if key is not None or value[:7].lower() != b"bearer ":
                return None
            key = value[7:].decode("latin-1")
        elif name == b"if-none-match":
            if etag is not None or len(value) > MAX_ETAG_BYTES:
                return None
            etag = value.decode("latin-1")
    return None if key is None else (key, etag)
