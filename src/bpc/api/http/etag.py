"""Serve stored bytes unchanged: the ETag is their hash, and If-None-Match can be answered with 304."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fastapi import Header
from pydantic import BaseModel
from starlette.responses import Response

from bpc.core.formats.hashes import Digest, sha256, to_hex

JSON: Final = "application/json"
BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
IfNoneMatch = Annotated[
    str | None, Header(max_length=1000, description="The ETag of bytes that you have. If it is the same: 304, no body.")
]
BYTES_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    # Generators of clients understand the first; the second is what is true.
    200: {
        "description": "The bytes, with the media type of the upload.",
        "content": {"application/octet-stream": BINARY, "*/*": BINARY},
    },
    304: {"description": "The bytes still have the ETag that was sent."},
}


def describe_bytes(
    media_type: str, stored_json: type[BaseModel] | None = None, header_names: Sequence[str] = ()
) -> dict[int | str, dict[str, Any]]:
    """Describe the answers of a route that serves bytes of one media type; stored JSON may have a format."""
    content = {} if media_type.endswith(("/json", "+json")) else BINARY
    answer: dict[str, Any] = {"description": "The stored bytes.", "content": {media_type: content}}
    if stored_json is not None:
        answer["model"] = stored_json
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in header_names}
    responses: dict[int | str, dict[str, Any]] = {**BYTES_RESPONSES, 200: answer}
    return {status: {**response, "headers": headers} if headers else response for status, response in responses.items()}


def serve_bytes(
    content: bytes,
    media_type: str,
    if_none_match: str | None,
    *,
    attachment: bool = False,
    name: str | None = None,
    cache: str = "private, no-cache",
    headers_beside: Mapping[str, str] | None = None,
) -> Response:
    """Answer `content` with its ETag, or 304 if the client has it. `headers_beside` are in both answers."""
    headers = {**make_etag_headers(sha256(content), cache), **(headers_beside or {})}
    if has_same_bytes(if_none_match, headers):
        return Response(status_code=304, headers=headers)
    if attachment:
        headers |= describe_attachment(name)
    return Response(content, media_type=media_type, headers=headers)


async def serve_large_bytes(
    content: bytes, media_type: str, if_none_match: str | None, *, attachment: bool = False, name: str | None = None
) -> Response:
    """The same for bytes that may be many: a thread computes the hash, and others are answered meanwhile."""
    return await asyncio.to_thread(serve_bytes, content, media_type, if_none_match, attachment=attachment, name=name)


def make_etag_headers(digest: Digest, cache: str = "private, no-cache") -> dict[str, str]:
    """The headers of an answer with bytes of this hash, and of the 304 in its place."""
    return {"ETag": f'"{to_hex(digest)}"', "Cache-Control": cache}


def describe_attachment(name: str | None = None) -> dict[str, str]:
    """Headers with which a browser does not render what somebody uploaded."""
    return {
        "Content-Disposition": "attachment" if name is None else f'attachment; filename="{name}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }


def has_same_bytes(if_none_match: str | None, headers: Mapping[str, str]) -> bool:
    """Whether the client has the bytes of these headers already."""
    return if_none_match is not None and _matches_etag(if_none_match, headers["ETag"])


def _matches_etag(header: str, tag: str) -> bool:
    # RFC 9110 13.1.2: `*`, or a list of tags compared weakly.
    return header.strip() == "*" or tag in {part.strip().removeprefix("W/") for part in header.split(",")}
