"""Stored bytes, served as they are: their hash as ETag, conditional requests answered without a body."""

from typing import Annotated, Any, Final

from fastapi import Header
from starlette.responses import Response

from bpc.core.digest import sha256, to_hex

BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
IfNoneMatch = Annotated[str | None, Header(max_length=1000)]
BYTES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The bytes, as what they were uploaded.", "content": {"*/*": BINARY}},
    304: {"description": "They are still the ones of the ETag that was sent."},
}


def described(media_type: str) -> dict[int | str, dict[str, Any]]:
    """`BYTES` for one media type."""
    # JSON that we serve has a format with a page of its own; everything else is just bytes.
    content = {} if media_type.endswith(("/json", "+json")) else BINARY
    return {**BYTES, 200: {"description": "The stored bytes.", "content": {media_type: content}}}


def served(
    content: bytes,
    media_type: str,
    if_none_match: str | None,
    *,
    attachment: bool = False,
    name: str | None = None,
    cache: str = "private, no-cache",
) -> Response:
    """`content` with its ETag, or 304 where the client has it."""
    tag = f'"{to_hex(sha256(content))}"'
    headers = {"ETag": tag, "Cache-Control": cache}
    if if_none_match is not None and _holds(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    if attachment:
        # A browser shows nothing of what somebody uploaded.
        headers["Content-Disposition"] = "attachment" if name is None else f'attachment; filename="{name}"'
        headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return Response(content, media_type=media_type, headers=headers)


def _holds(given: str, tag: str) -> bool:
    # RFC 9110 13.1.2: `*`, or a list of tags compared weakly.
    return given.strip() == "*" or tag in {part.strip().removeprefix("W/") for part in given.split(",")}
