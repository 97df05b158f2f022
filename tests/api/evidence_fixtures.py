"""What tests of the API begin with: documents that were uploaded and read, and snapshots of their facts."""

import json
from base64 import b64encode
from typing import Any

from service_jobs import Worker

from bpc.api.http.request_context import Service
from tests.api.conftest import Api

BOM: dict[str, Any] = {
    "battery": {"sku": "SKU-1", "name": "Cell", "capacity_kwh": 75.5},
    "components": [
        {"sku": "SKU-1", "part": "cell", "mass_g": 120.5, "colour": "red"},
        {"sku": "SKU-1", "part": "casing", "mass_g": "80"},
    ],
}


async def run_all_jobs(service: Service) -> None:
    """Run every job that waits."""
    await Worker(service.jobs).run_until_idle()


async def upload_document(api: Api, content: object, *, kind: str = "BOM") -> Any:
    """The answer to an upload, to a new document."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    document = (await api.post_json("/v1/documents", {"kind": kind}))["document_id"]
    body = {"mime_type": "application/json", "content_base64": b64encode(raw).decode()}
    return await api.post_json(f"/v1/documents/{document}/versions", body)


async def upload_and_parse(api: Api, service: Service, content: object, *, kind: str = "BOM") -> str:
    """The id of a document version, whose facts are there."""
    version = str((await upload_document(api, content, kind=kind))["document_version_id"])
    await run_all_jobs(service)
    return version


async def create_facts(api: Api, service: Service, content: object, *, kind: str = "BOM") -> list[str]:
    """The ids of the facts of a new document."""
    version = await upload_and_parse(api, service, content, kind=kind)
    listed = await api.get_json(f"/v1/facts?document_version_id={version}&limit=200")
    return [item["fact_id"] for item in listed["items"]]


async def create_snapshot(api: Api, facts: list[str]) -> str:
    """The id of a new snapshot with these facts in it."""
    snapshot = str((await api.post_json("/v1/snapshots", {}))["snapshot_id"])
    await api.post_json(f"/v1/snapshots/{snapshot}/items", {"fact_ids": facts}, status=200)
    return snapshot


async def create_ready_snapshot(api: Api, service: Service, facts: list[str]) -> str:
    """The id of a new snapshot that was built."""
    snapshot = await create_snapshot(api, facts)
    await api.post_json(f"/v1/snapshots/{snapshot}/build", status=202)
    await run_all_jobs(service)
    return snapshot
