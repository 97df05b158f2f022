"""Documents over HTTP: what was sent is kept as it was sent, once."""

import asyncio
from base64 import b64encode
from uuid import UUID

import httpx2
import jsonschema
import pytest

from bpc.api.http.request_context import Service
from bpc.core.documents.elements import FACT_TYPES
from bpc.core.documents.fact_members import build_document_schema
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import DocumentVersionId, TenantId
from bpc.runtime import clock
from bpc.storage.evidence import parse_results
from bpc.storage.evidence.parse_results import DocumentTextRow
from tests.api.conftest import Api
from tests.api.test_journey import wait_for_job

CONTENT = b'{"battery":{"sku":"SKU-1"},"components":[]}'


async def _create_document(admin: Api, kind: str = "BOM") -> str:
    document = await admin.post_json("/v1/documents", {"kind": kind, "external_ref": "ERP-1"})
    return str(document["document_id"])


def _make_upload(content: bytes = CONTENT, mime_type: str = "application/json") -> dict[str, str]:
    return {"mime_type": mime_type, "content_base64": b64encode(content).decode()}


async def test_a_document_is_created_listed_and_found(admin: Api) -> None:
    document = await _create_document(admin)

    listed = await admin.get_json("/v1/documents")

    assert listed["next_cursor"] is None
    assert [item["document_id"] for item in listed["items"]] == [document]
    assert (await admin.get_json(f"/v1/documents/{document}"))["kind"] == "BOM"


async def test_an_upload_is_kept_byte_for_byte_and_a_job_will_read_it(admin: Api) -> None:
    document = await _create_document(admin)

    version = await admin.post_json(f"/v1/documents/{document}/versions", _make_upload())

    assert (version["version"], version["status"]) == (1, "UPLOADED")
    assert version["job_id"] is not None
    answer = await admin.get(f"/v1/document-versions/{version['document_version_id']}/content")
    assert answer.content == CONTENT
    assert answer.headers["etag"] == f'"{to_hex(sha256(CONTENT))}"'
    again = await admin.get(
        f"/v1/document-versions/{version['document_version_id']}/content",
        headers={"If-None-Match": answer.headers["etag"]},
    )
    assert (again.status_code, again.content) == (304, b"")


async def test_the_same_bytes_again_change_nothing_and_name_the_first_version(admin: Api) -> None:
    document = await _create_document(admin)
    version = await admin.post_json(f"/v1/documents/{document}/versions", _make_upload())

    again = await admin.post_json(f"/v1/documents/{document}/versions", _make_upload(), status=200)

    assert again == version
    assert len((await admin.get_json(f"/v1/documents/{document}/statements"))["items"]) == 1


async def test_bytes_of_another_kind_of_document_are_a_conflict(admin: Api) -> None:
    version = await admin.post_json(f"/v1/documents/{await _create_document(admin)}/versions", _make_upload())

    refused = await admin.post(f"/v1/documents/{await _create_document(admin, 'PCF')}/versions", _make_upload())

    assert refused.status_code == 409
    assert refused.json()["error"]["details"]["kind"] == "BOM"
    assert refused.json()["error"]["details"]["document_version_id"] == version["document_version_id"]


@pytest.mark.usefixtures("worker")
async def test_bytes_that_were_rejected_may_come_again_as_what_they_are(admin: Api) -> None:
    footprint = _make_upload(b'{"sku": "SKU-1", "total_gco2e": 6040}')
    wrong = await admin.post_json(f"/v1/documents/{await _create_document(admin, 'BOM')}/versions", footprint)
    await wait_for_job(admin, wrong["job_id"], "FAILED")

    right = await admin.post_json(f"/v1/documents/{await _create_document(admin, 'PCF')}/versions", footprint)

    await wait_for_job(admin, right["job_id"])
    document = await _create_document(admin, "PCF")
    again = await admin.post_json(f"/v1/documents/{document}/versions", footprint, status=200)
    assert again["document_version_id"] == right["document_version_id"]


async def test_the_same_bytes_sent_at_once_become_one_version_that_all_others_are_told_of(admin: Api) -> None:
    documents = [await _create_document(admin) for _ in range(4)]

    answers = await asyncio.gather(*(admin.post(f"/v1/documents/{one}/versions", _make_upload()) for one in documents))

    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 201]
    assert len({answer.json()["document_version_id"] for answer in answers}) == 1
    assert len({answer.json()["job_id"] for answer in answers}) == 1


@pytest.mark.parametrize(
    ("mime_type", "content", "value"),
    [
        ("application/pdf", CONTENT, "application/json"),
        ("application/json", b"%PDF-1.7 ...", "application/pdf"),
        ("image/png", b"sku;mass\n", "text/csv"),
        ("text/plain", b"\x00\x01\x02", "application/octet-stream"),
    ],
)
async def test_a_type_that_the_bytes_contradict_is_refused_with_what_was_found(
    admin: Api, mime_type: str, content: bytes, value: str
) -> None:
    document = await _create_document(admin, "OTHER")

    refused = await admin.post(f"/v1/documents/{document}/versions", _make_upload(content, mime_type))
    vague = await admin.post_json(
        f"/v1/documents/{document}/versions", _make_upload(content, "application/octet-stream")
    )

    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (422, "VALIDATION_ERROR")
    assert error["details"] == {"mime_type": mime_type, "found": value}
    assert error["message"] == (
        f"the bytes of the file are `{value}`, not `{mime_type}` as declared; declare `{value}`, or send the right file"
    )
    assert vague["version"] == 1


async def test_a_large_upload_is_decoded_in_pieces_as_if_it_were_one(admin: Api) -> None:
    document = await _create_document(admin, "OTHER")
    content = bytes(range(256)) * 6_000 + b"!"
    text = b64encode(content).decode()

    version = await admin.post_json(
        f"/v1/documents/{document}/versions", _make_upload(content, "application/octet-stream")
    )

    assert version["sha256"] == to_hex(sha256(content))
    for wrong in (text[:-1], text[:999_998] + "==" + text, text[:1_000_100] + "====" + text[1_000_100:], f"{text}%"):
        body = {"mime_type": "text/plain", "content_base64": wrong}
        answer = await admin.post(f"/v1/documents/{document}/versions", body)
        assert (answer.status_code, "not base64" in answer.text) == (422, True)


async def test_a_document_of_another_tenant_is_like_one_that_does_not_exist(admin: Api, other_admin: Api) -> None:
    document = await _create_document(admin)

    foreign = await other_admin.get(f"/v1/documents/{document}", headers={"X-Correlation-Id": document})
    unknown = await other_admin.get(f"/v1/documents/{clock.new_id()}", headers={"X-Correlation-Id": document})

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json()["error"]["code"] == "NOT_FOUND"


# Ingestion over HTTP: a job is promised for a URL that may be fetched, and others are refused at once.


URL = "https://supplier.example/bom.json"


async def _create_other_document(admin: Api) -> str:
    return str((await admin.post_json("/v1/documents", {"kind": "OTHER"}))["document_id"])


async def test_a_url_is_answered_with_the_job_that_fetches_it(admin: Api) -> None:
    document = await _create_other_document(admin)

    answer = await admin.post(f"/v1/documents/{document}/ingest", {"file_url": URL, "mime_type": "application/json"})

    assert answer.status_code == 202, answer.text
    job = await admin.get_json(f"/v1/jobs/{answer.json()['job_id']}")
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
    document = await _create_other_document(admin)

    answer = await admin.post(f"/v1/documents/{document}/ingest", {"file_url": url})

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, code), answer.text
    assert (await admin.get_json("/v1/jobs"))["items"] == []


async def test_a_document_that_is_not_there_is_not_found(admin: Api) -> None:
    answer = await admin.post(f"/v1/documents/{clock.new_id()}/ingest", {"file_url": URL})

    assert answer.status_code == 404


async def test_an_uploaded_pdf_gets_a_job_for_its_text_whatever_its_kind(
    admin: Api, service: Service, tenant: TenantId
) -> None:
    document = await _create_other_document(admin)
    body = {"mime_type": "application/pdf", "content_base64": b64encode(b"%PDF-1.7 ...").decode()}

    answer = await admin.post_json(f"/v1/documents/{document}/versions", body)

    assert answer["job_id"] is None
    [job] = (await admin.get_json("/v1/jobs"))["items"]
    assert job["type"] == "EXTRACT_TEXT"
    path = f"/v1/document-versions/{answer['document_version_id']}/text"
    assert (await admin.get(path)).status_code == 404
    async with service.database.tenant(tenant) as conn:
        version = DocumentVersionId(UUID(answer["document_version_id"]))
        await parse_results.insert_text(conn, tenant, version, DocumentTextRow(pages=2, text="one\ftwo"))
    assert await admin.get_json(path) == {
        "document_version_id": answer["document_version_id"],
        "pages": 2,
        "text": "one\ftwo",
        "problem": None,
    }


# The JSON Schemas of documents over HTTP: for everybody, and those that documents are read by.


@pytest.mark.parametrize("kind", FACT_TYPES)
async def test_the_schema_of_a_kind_needs_no_key(http: httpx2.AsyncClient, kind: str) -> None:
    answer = await http.get(f"/v1/schemas/{kind}")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/schema+json")
    assert answer.json() == build_document_schema(kind)
    jsonschema.Draft202012Validator.check_schema(answer.json())


async def test_a_kind_without_facts_has_no_schema(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/schemas/OTHER")

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
