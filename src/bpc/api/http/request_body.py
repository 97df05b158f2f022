"""Request bodies: read completely, bounded in size, and parsed before the route runs: strict JSON, or a file.

A file is raw bytes or a form (multipart/form-data) with one file; the route says that it takes one.

The large bodies of a process share a bounded memory; a request that does not fit is refused with RATE_LIMITED.

JSON is refused, with the place, if it is not JSON or has a member twice, NaN, a fraction, a lone surrogate or U+0000.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.requests import Request

from bpc.api.access.tenant_limits import TenantMemory
from bpc.api.http.child_compute import THREAD_THRESHOLD_BYTES, compute_by_size, compute_in_child
from bpc.api.http.json_parsing import is_quick_to_parse, parse_json
from bpc.api.http.multipart import MULTIPART, SentFile, parse_header, read_file_name, split_form
from bpc.api.http.request_context import Service
from bpc.core.errors import Invalid, Refusal
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import TenantId

MAX_BODY_BYTES: Final = 1_000_000  # all bodies except those below
MAX_RULES_BYTES: Final = 5_000_000  # two texts of a MiB, with escapes
# What receiving a body takes of the event loop before a request sees it: 3 ms for a megabyte.
READING_SECONDS_PER_BYTE: Final = 3e-9
MAX_SMALL_BYTES: Final = 32_768  # bodies of whoever has no API key: a form that is filled in, with everything escaped
UPLOAD_OVERHEAD_BYTES: Final = 10_000  # the JSON around a document
FORM_OVERHEAD_BYTES: Final = 200_000  # the fields and heads of a form around a file
UPLOAD_PATH: Final = "/v1/documents/{document_id}/versions"
BODY_MEMORY_BYTES: Final = 256_000_000  # for all large bodies of a process together; more if a single one may be larger


class RequestTooLarge(Refusal):
    """The body is larger than the route takes."""

    code = "REQUEST_TOO_LARGE"

    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            f"the body has more than {max_bytes:,} bytes", fix="send less at once", details={"most": max_bytes}
        )


class UnsupportedMediaType(Refusal):
    """The Content-Type is not JSON."""

    code = "UNSUPPORTED_MEDIA_TYPE"

    def __init__(self) -> None:
        super().__init__("the body is not JSON", fix="send `Content-Type: application/json`, in UTF-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentUpload:
    """The file of a request and the fields of its form. `digest` is the same for the same file, name and fields."""

    file: SentFile
    fields: Mapping[str, str]
    digest: Digest


class JsonRequest(Request):
    """A request whose body is already read and parsed."""

    def with_body(self, body: bytes, value: Any) -> "JsonRequest":
        self._body = body
        self._value = value
        return self

    async def json(self) -> Any:
        return self._value


def make_body_memory(upload_bytes: int) -> TenantMemory:
    """Create the memory for bodies of a process that takes documents of this size."""
    return TenantMemory(max(BODY_MEMORY_BYTES, 2 * _max_body_bytes(UPLOAD_PATH, upload_bytes)))


@asynccontextmanager
async def read_body(request: Request, tenant: TenantId, service: Service) -> AsyncIterator[tuple[Request, Digest]]:
    """Yield the request with its parsed body, and the hash of the body; its memory is released when the block ends.

    The file of a route that takes one is in `request.state.upload`.
    """
    route, memory, upload_bytes = request.scope["route"], service.body_memory, service.settings.upload_max_bytes
    max_bytes = upload_bytes + FORM_OVERHEAD_BYTES if route.takes_file else _max_body_bytes(route.path, upload_bytes)
    _check_content_length(request, max_bytes)
    parts, size, counted_size = [], 0, 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > max_bytes:
                raise RequestTooLarge(max_bytes)
            if size > THREAD_THRESHOLD_BYTES:  # small bodies are not counted
                memory.take(tenant, size - counted_size)
                counted_size = size
                request.state.meter.add(len(part) * READING_SECONDS_PER_BYTE)
                # Whoever waits here stops reading, and then its client stops sending.
                await service.admission.shares.wait_for_share(tenant)
            parts.append(part)
        body = b"".join(parts)
        parts.clear()  # the body must not be in memory twice while the route runs
        if request.scope["route"].takes_file:
            upload = await asyncio.to_thread(_read_upload, request.headers, body)
            del body
            request.state.upload = upload
            yield JsonRequest(request.scope, request.receive).with_body(b"", None), upload.digest
        else:
            value = await _parse_body(service, tenant, request, body) if body else None
            digest = await compute_by_size(sha256, body)
            yield JsonRequest(request.scope, request.receive).with_body(body, value), digest
    finally:
        memory.release(tenant, counted_size)


async def read_small_body(request: Request, *, has_model: bool) -> JsonRequest:
    """The request with a body of somebody who has no API key. It is parsed if the route has a model for it."""
    _check_content_length(request, MAX_SMALL_BYTES)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_SMALL_BYTES:
            raise RequestTooLarge(MAX_SMALL_BYTES)
        parts.append(part)
    body, value = b"".join(parts), None
    if body and has_model:
        if not _is_json(request.headers.getlist("content-type")):
            raise UnsupportedMediaType
        value = parse_json(body)
    return JsonRequest(request.scope, request.receive).with_body(body, value)


def _max_body_bytes(path: str, upload_bytes: int) -> int:
    if path == UPLOAD_PATH:
        return upload_bytes * 4 // 3 + UPLOAD_OVERHEAD_BYTES  # base64: four bytes for three
    return MAX_RULES_BYTES if path.startswith("/v1/rule") else MAX_BODY_BYTES


def _read_upload(headers: Headers, body: bytes) -> SentUpload:
    """Read a form or raw bytes. The hash leaves out the boundary of a form, which is another one each time."""
    content_type = headers.get("content-type", "")
    media_type, _ = parse_header(content_type)
    if media_type == MULTIPART:
        form = split_form(content_type, body)
        file, fields = form.file, form.fields
    else:
        file_name = read_file_name(headers.get("content-disposition", ""))
        file, fields = SentFile(content=body, media_type=media_type or None, file_name=file_name), {}
    description: dict[str, Json] = {
        "content_sha256": to_hex(sha256(file.content)),
        "fields": dict(fields),
        "file_name": file.file_name,
        "media_type": file.media_type,
    }
    return SentUpload(file=file, fields=fields, digest=sha256(canonical_json.encode(description)))


def _check_content_length(request: Request, max_bytes: int) -> None:
    content_length = request.headers.get("content-length", "")
    if content_length.isdecimal() and (len(content_length) > 18 or int(content_length) > max_bytes):
        raise RequestTooLarge(max_bytes)


async def _parse_body(service: Service, tenant: TenantId, request: Request, body: bytes) -> object:
    if not _is_json(request.headers.getlist("content-type")):
        raise UnsupportedMediaType
    if is_quick_to_parse(body):
        value = parse_json(body)
    else:
        async with service.parser_turns.take(tenant):
            value = await compute_in_child(service.parsers, parse_json, body)
    if value != {} and _takes_no_body(request.scope["route"]):
        raise Invalid("this route takes no body", fix="leave it out")
    return value


def _takes_no_body(route: APIRoute) -> bool:
    # A route of kind `ask` may read the body itself.
    return route.body_field is None and getattr(route, "kind", "ask") != "ask"


def _is_json(content_types: list[str]) -> bool:
    if len(content_types) != 1:
        return False
    kind, *parameters = [part.strip().lower() for part in content_types[0].split(";")]
    return kind == "application/json" and all(part in {"", "charset=utf-8", 'charset="utf-8"'} for part in parameters)
