"""Serve stored bytes unchanged: the ETag is their hash, and If-None-Match can be answered with 304."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fastapi import Header
from pydantic import BaseModel
from starlette.responses import Response

from bpc.core.formats.hashes import sha256, to_hex

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
    tag = f'"{to_hex(sha256(content))}"'
    headers = {"ETag": tag, "Cache-Control": cache, **(headers_beside or {})}
    if if_none_match is not None and _matches_etag(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    if attachment:
        # A browser must not render what somebody uploaded.
        headers["Content-Disposition"] = "attachment" if name is None else f'attachment; filename="{name}"'
        headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return Response(content, media_type=media_type, headers=headers)


def _matches_etag(header: str, tag: str) -> bool:
    # RFC 9110 13.1.2: `*`, or a list of tags compared weakly.
    return header.strip() == "*" or tag in {part.strip().removeprefix("W/") for part in header.split(",")}
