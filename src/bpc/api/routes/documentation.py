"""/v1/openapi.json, /v1/docs: what there is to call, for programs and for people. Nothing is loaded from outside."""

import asyncio
from functools import cache
from importlib import resources
from typing import Final, Literal

import fastapi_offline
import orjson
from starlette.requests import Request
from starlette.responses import Response

from bpc.api import static
from bpc.api.routing import Routes

routes = Routes("Documentation")

# The page may run its own two scripts and ask this service; its icons are drawn from data.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
Asset = Literal["docs.js", "swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"]
TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "png": "image/png",
}


@routes.open("/v1/openapi.json", include_in_schema=False)
async def get_openapi(request: Request) -> Response:
    """Get this document."""
    document = await asyncio.to_thread(request.app.openapi)  # making it takes a while, once
    return Response(orjson.dumps(document), media_type="application/json")


@routes.open("/v1/docs", include_in_schema=False)
async def get_documentation() -> Response:
    """Get the interactive page."""
    return _served("docs.html")


@routes.open("/v1/docs/{asset}", include_in_schema=False)
async def get_documentation_asset(asset: Asset) -> Response:
    """Get a part of that page."""
    return _served(asset)


def _served(name: str) -> Response:
    content = _content(name)
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    return Response(content, headers=headers | {"Content-Type": TYPES[name.rpartition(".")[2]]})


@cache
def _content(name: str) -> bytes:
    ours = resources.files(static) / name
    found = ours if ours.is_file() else resources.files(fastapi_offline) / "static" / name
    return found.read_bytes()
