"""The synchronous client against the real API on a real socket."""

import asyncio
from base64 import b64encode
from pathlib import Path

import pytest
from bpc_client import ApiError, SyncClient

from bpc.api.http.request_context import Service
from bpc.api.http.server import listen
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import create_key

BOM = (Path(__file__).parents[2] / "examples" / "documents" / "bom.json").read_bytes()


def upload_and_list_facts(url: str, api_key: str) -> list[str]:
    """Upload a document, wait for its job, and return the keys of the facts."""
    with SyncClient(url, api_key) as bpc:
        document = bpc.create_document(kind="BOM", idempotency_key="once")
        assert bpc.create_document(kind="BOM", idempotency_key="once") == document
        version = bpc.upload_document_version(
            document.document_id, mime_type="application/json", content_base64=b64encode(BOM).decode()
        )
        assert version.job_id is not None
        assert bpc.wait(version.job_id).status == "SUCCEEDED"
        assert bpc.get_document_content(version.document_version_id).content == BOM
        with pytest.raises(ApiError, match="NOT_FOUND"):
            bpc.get_document(version.job_id)
        return [fact.fact_key for fact in bpc.list_all(bpc.list_facts, limit=1)]


@pytest.mark.usefixtures("worker")
async def test_a_program_without_asyncio_uploads_waits_and_lists(
    service: Service, database: Database, tenant: TenantId, act: Act
) -> None:
    key = await create_key(database, tenant, "Admin", act)

    async with listen(service, "127.0.0.1", 0) as port:
        fact_keys = await asyncio.to_thread(upload_and_list_facts, f"http://127.0.0.1:{port}", key)

    assert len(fact_keys) > 1
