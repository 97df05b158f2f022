"""Idempotency keys: a write that is sent twice has one effect, and the second is answered as the first was."""

import re
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bpc.core.errors import Conflict, Invalid, Refusal
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.storage.access.api_requests import Caller, IdempotentResponse

MAX_KEY_CHARS: Final = 200
IDEMPOTENCY_KEY: Final = re.compile(f"[!-~]{{1,{MAX_KEY_CHARS}}}")
STORED_HEADERS: Final = ("content-type", "location", "etag")
SECRET_OF: Final = "secret-of"  # noqa: S105 (the name of a stored header)


class IdempotencyConflict(Refusal):
    """The Idempotency-Key was used for another request."""

    code = "IDEMPOTENCY_CONFLICT"

    def __init__(self) -> None:
        super().__init__("this Idempotency-Key was used for another request", fix="use a new key for every new request")


def read_idempotency_key(request: Request) -> str:
    values = request.headers.getlist("idempotency-key")
    if len(values) != 1 or not IDEMPOTENCY_KEY.fullmatch(values[0]):
        raise Invalid(
            "the header Idempotency-Key is missing or invalid",
            fix=f"send one with 1 to {MAX_KEY_CHARS} visible ASCII characters, new for every new request",
        )
    return values[0]


def hash_request(caller: Caller, request: Request, body_hash: Digest) -> Digest:
    return sha256(
        canonical_json.encode(
            {
                "actor_id": str(caller.actor_id),
                "body_sha256": to_hex(body_hash),
                "method": request.method,
                "path": request.url.path,
                "query": request.url.query,
            }
        )
    )


def repeat_answer(stored_answer: IdempotentResponse, request_hash: Digest) -> Response:
    if stored_answer.request_hash != request_hash:
        raise IdempotencyConflict
    if SECRET_OF in stored_answer.headers:
        raise Conflict(
            "this request was already done, and its answer contained a secret that is shown only once",
            fix="create a new one if the secret is lost",
            details={"id": stored_answer.headers[SECRET_OF]},
        )
    return Response(stored_answer.body, status_code=stored_answer.status, headers=dict(stored_answer.headers))


def to_stored_answer(response: Response, request_hash: Digest, *, secret: str | None) -> IdempotentResponse:
    """The answer as it is stored. If it shows a secret, only the id in the member `secret` is kept."""
    headers = {name: response.headers[name] for name in STORED_HEADERS if name in response.headers}
    body = bytes(response.body)
    if secret is not None and response.status_code != 202:
        members = canonical_json.read_json(body)
        headers[SECRET_OF] = str(members[secret]) if isinstance(members, Mapping) else ""
        body = b""
    return IdempotentResponse(request_hash=request_hash, status=response.status_code, headers=headers, body=body)
