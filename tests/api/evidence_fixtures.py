"""What tests of the API begin with: documents that were uploaded and read, and snapshots of their facts."""

import json
from base64 import b64encode
from typing import Any

from bpc.api.service import Service
from bpc.jobs import Worker
from tests.api.conftest import Api

BOM: dict[str, Any] = {
    "battery": {"sku": "SKU-1", "name": "Cell", "capacity_kwh": 75.5},
    "components": [
        {"sku": "SKU-1", "part": "cell", "mass_g": 120.5, "colour": "red"},
        {"sku": "SKU-1", "part": "casing", "mass_g": "80"},
    ],
}


async def work_done(service: Service) -> None:
    """Run every job that waits."""
    await Worker(service.jobs).run_until_idle()


async def uploaded(api: Api, content: object, *, kind: str = "BOM") -> Any:
    """The answer to an upload, to a new document."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    document = (await api.made("/v1/documents", {"kind": kind}))["document_id"]
    body = {"mime_type": "application/json", "content_base64": b64encode(raw).decode()}
    return await api.made(f"/v1/documents/{document}/versions", body)


async def read(api: Api, service: Service, content: object, *, kind: str = "BOM") -> str:
    """The id of a document version, whose facts are there."""
    version = str((await uploaded(api, content, kind=kind))["document_version_id"])
    await work_done(service)
    return version


async def facts_of(api: Api, service: Service, content: object, *, kind: str = "BOM") -> list[str]:
    """The ids of the facts of a new document."""
    version = await read(api, service, content, kind=kind)
    listed = await api.got(f"/v1/facts?document_version_id={version}&limit=200")
    return [item["fact_id"] for item in listed["items"]]


async def snapshot_of(api: Api, facts: list[str]) -> str:
    """The id of a new snapshot with these facts in it."""
    snapshot = str((await api.made("/v1/snapshots", {}))["snapshot_id"])
    await api.made(f"/v1/snapshots/{snapshot}/items", {"fact_ids": facts}, status=200)
    return snapshot


async def ready(api: Api, service: Service, facts: list[str]) -> str:
    """The id of a new snapshot that was built."""
    snapshot = await snapshot_of(api, facts)
    await api.made(f"/v1/snapshots/{snapshot}/build", status=202)
    await work_done(service)
    return snapshot
