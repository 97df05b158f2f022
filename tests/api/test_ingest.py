"""Ingestion over HTTP: a job is promised for a URL that may be fetched, and others are refused at once."""

from base64 import b64encode
from uuid import UUID

import pytest

from bpc import fresh
from bpc.api.service import Service
from bpc.core.ids import DocumentVersionId, TenantId
from bpc.db import document_texts
from bpc.db.document_texts import Text
from tests.api.conftest import Api

URL = "https://supplier.example/bom.json"


async def _document(admin: Api) -> str:
    return str((await admin.made("/v1/documents", {"kind": "OTHER"}))["document_id"])


async def test_a_url_is_answered_with_the_job_that_fetches_it(admin: Api) -> None:
    document = await _document(admin)

    answer = await admin.post(f"/v1/documents/{document}/ingest", {"file_url": URL, "mime_type": "application/json"})

    assert answer.status_code == 202, answer.text
    job = await admin.got(f"/v1/jobs/{answer.json()['job_id']}")
    assert (job["type"], job["status"]) == ("INGEST_DOCUMENT", "QUEUED")
    assert URL not in str(job)  # it may hold a secret


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("", "VALIDATION_ERROR"),
        ("ftp://supplier.example/x", "VALIDATION_ERROR"),
        ("https://user:word@supplier.example/x", "VALIDATION_ERROR"),
        ("https://supplier.example/x#y", "VALIDATION_ERROR"),
        ("file://host/x", "VALIDATION_ERROR"),
        ("file:///etc/../etc/passwd", "VALIDATION_ERROR"),
        ("http://supplier.example/x", "VALIDATION_ERROR"),
        ("file:///etc/passwd", "OUTBOUND_BLOCKED"),
        ("http://127.0.0.1/x", "OUTBOUND_BLOCKED"),
        ("http://169.254.169.254/latest/meta-data", "OUTBOUND_BLOCKED"),
        ("http://[::ffff:10.0.0.1]/x", "OUTBOUND_BLOCKED"),
    ],
)
async def test_a_url_that_nothing_can_come_of_is_refused_at_once(admin: Api, url: str, code: str) -> None:
    document = await _document(admin)

    answer = await admin.post(f"/v1/documents/{document}/ingest", {"file_url": url})

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, code), answer.text
    assert (await admin.got("/v1/jobs"))["items"] == []


async def test_a_document_that_is_not_there_is_not_found(admin: Api) -> None:
    answer = await admin.post(f"/v1/documents/{fresh.new_id()}/ingest", {"file_url": URL})

    assert answer.status_code == 404


async def test_an_uploaded_pdf_gets_a_job_for_its_text_whatever_its_kind(
    admin: Api, service: Service, tenant: TenantId
) -> None:
    document = await _document(admin)
    body = {"mime_type": "application/pdf", "content_base64": b64encode(b"%PDF-1.7 ...").decode()}

    made = await admin.made(f"/v1/documents/{document}/versions", body)

    assert made["job_id"] is None
    [job] = (await admin.got("/v1/jobs"))["items"]
    assert job["type"] == "EXTRACT_TEXT"
    path = f"/v1/document-versions/{made['document_version_id']}/text"
    assert (await admin.get(path)).status_code == 404
    async with service.database.tenant(tenant) as conn:
        version = DocumentVersionId(UUID(made["document_version_id"]))
        await document_texts.add(conn, tenant, version, Text(pages=2, text="one\ftwo"))
    assert await admin.got(path) == {
        "document_version_id": made["document_version_id"],
        "pages": 2,
        "text": "one\ftwo",
        "problem": None,
    }
