"""/v1/schemas: what documents of each kind look like. Open to everybody: whoever writes them has no key."""

from functools import cache
from typing import Final, Literal

import orjson
from starlette.responses import Response

from bpc.api.routing import Routes
from bpc.core.documents.json_schema import schema_of

routes = Routes("Documents")

JSON_SCHEMA: Final = "application/schema+json"


@routes.open(
    "/v1/schemas/{kind}",
    response_class=Response,
    responses={200: {"description": "The schema.", "content": {JSON_SCHEMA: {"schema": {"type": "object"}}}}},
)
async def get_document_schema(kind: Literal["BOM", "PCF", "DUE_DILIGENCE"]) -> Response:
    """Get the JSON Schema (2020-12) of the documents of a kind."""
    return Response(_schema(kind), media_type=JSON_SCHEMA)


@cache
def _schema(kind: str) -> bytes:
    return orjson.dumps(schema_of(kind))
