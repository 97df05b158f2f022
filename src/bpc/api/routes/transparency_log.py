"""/log/…: the transparency log as files, for everybody and without a key (C2SP tlog-tiles)."""

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.http.request_context import Service
from bpc.api.http.routing import RouteFamily
from bpc.runtime.settings.data_dir import locate_log_folder
from bpc.storage.tlog.log_answers import find_log_file
from bpc.storage.tlog.log_files import CHECKPOINT_FILE, LogFolder

routes = RouteFamily("Transparency log")


@routes.open("/log/checkpoint", include_in_schema=False)
async def get_log_checkpoint(request: Request) -> Response:
    """Get the newest signed checkpoint of the log."""
    return await _serve_file(request, CHECKPOINT_FILE)


@routes.open("/log/tile/{path:path}", include_in_schema=False)
async def get_log_tile(request: Request, path: str) -> Response:
    """Get a tile of the log's tree, or a bundle of its entries."""
    return await _serve_file(request, f"tile/{path}")


async def _serve_file(request: Request, path: str) -> Response:
    service: Service = request.app.state.service
    folder = LogFolder(locate_log_folder(service.settings))
    file = await asyncio.to_thread(find_log_file, folder, path)
    if file is None:
        raise HTTPException(404)
    return Response(file.data, headers=dict(file.headers))
