"""The bytes of a document as an answer: counted before they are read, read and sent in pieces.

Whoever has too much on its way must not make us read more of it, and no piece is so large that others wait for it.
"""

from starlette.responses import Response

from bpc.api.access.answer_memory import CountedResponse, hold_large
from bpc.api.http.etag import describe_attachment, has_same_bytes, make_etag_headers
from bpc.api.http.request_context import RequestContext
from bpc.core.formats.ids import DocumentVersionId
from bpc.storage.evidence import content_pieces


async def serve_document(ctx: RequestContext, version: DocumentVersionId, if_none_match: str | None) -> Response | None:
    """The answer; None if retention has removed the bytes."""
    about = await content_pieces.measure_content(ctx.conn, ctx.tenant, version)
    if about.size is None:
        return None
    headers = make_etag_headers(about.sha256)
    if has_same_bytes(if_none_match, headers):
        return Response(status_code=304, headers=headers)
    hold = hold_large(ctx.service.answer_memory, ctx.tenant, about.size)
    pieces = await content_pieces.load_pieces(ctx.conn, ctx.tenant, version)
    headers |= describe_attachment()
    return CountedResponse(pieces, about.size, hold, headers=headers, media_type=about.mime_type)
