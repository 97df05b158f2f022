"""Documents over HTTP: what was sent is kept as it was sent, once."""

import asyncio
from base64 import b64encode

import pytest

from bpc import fresh
from bpc.core.digest import sha256, to_hex
from tests.api.conftest import Api
from tests.api.test_journey import ended

CONTENT = b'{"battery":{"sku":"SKU-1"},"components":[]}'


async def _document(admin: Api, kind: str = "BOM") -> str:
    made = await admin.made("/v1/documents", {"kind": kind, "external_ref": "ERP-1"})
    return str(made["document_id"])


def _upload(content: bytes = CONTENT, mime_type: str = "application/json") -> dict[str, str]:
    return {"mime_type": mime_type, "content_base64": b64encode(content).decode()}


async def test_a_document_is_created_listed_and_found(admin: Api) -> None:
    document = await _document(admin)

    listed = await admin.got("/v1/documents")

    assert listed["next_cursor"] is None
    assert [item["document_id"] for item in listed["items"]] == [document]
    assert (await admin.got(f"/v1/documents/{document}"))["kind"] == "BOM"


async def test_an_upload_is_kept_byte_for_byte_and_a_job_will_read_it(admin: Api) -> None:
    document = await _document(admin)

    made = await admin.made(f"/v1/documents/{document}/versions", _upload())

    assert (made["version"], made["status"]) == (1, "UPLOADED")
    assert made["job_id"] is not None
    answer = await admin.get(f"/v1/document-versions/{made['document_version_id']}/content")
    assert answer.content == CONTENT
    assert answer.headers["etag"] == f'"{to_hex(sha256(CONTENT))}"'
    again = await admin.get(
        f"/v1/document-versions/{made['document_version_id']}/content",
        headers={"If-None-Match": answer.headers["etag"]},
    )
    assert (again.status_code, again.content) == (304, b"")


async def test_the_same_bytes_again_are_a_conflict_that_names_the_first(admin: Api) -> None:
    document = await _document(admin)
    made = await admin.made(f"/v1/documents/{document}/versions", _upload())

    again = await admin.post(f"/v1/documents/{document}/versions", _upload())

    assert again.status_code == 409
    assert again.json()["error"]["details"]["document_version_id"] == made["document_version_id"]


@pytest.mark.usefixtures("worker")
async def test_bytes_that_were_rejected_may_come_again_as_what_they_are(admin: Api) -> None:
    footprint = _upload(b'{"sku": "SKU-1", "total_gco2e": 6040}')
    wrong = await admin.made(f"/v1/documents/{await _document(admin, 'BOM')}/versions", footprint)
    await ended(admin, wrong["job_id"], "FAILED")

    right = await admin.made(f"/v1/documents/{await _document(admin, 'PCF')}/versions", footprint)

    await ended(admin, right["job_id"])
    again = await admin.post(f"/v1/documents/{await _document(admin, 'PCF')}/versions", footprint)
    assert again.json()["error"]["details"]["document_version_id"] == right["document_version_id"]


async def test_the_same_bytes_sent_at_once_become_one_version_that_all_others_are_told_of(admin: Api) -> None:
    documents = [await _document(admin) for _ in range(4)]

    answers = await asyncio.gather(*(admin.post(f"/v1/documents/{one}/versions", _upload()) for one in documents))

    [made] = [answer.json() for answer in answers if answer.status_code == 201]
    refused = [answer.json()["error"] for answer in answers if answer.status_code == 409]
    assert len(refused) == 3
    assert {error["details"]["document_version_id"] for error in refused} == {made["document_version_id"]}


@pytest.mark.parametrize(
    ("mime_type", "content", "found"),
    [
        ("application/pdf", CONTENT, "application/json"),
        ("application/json", b"%PDF-1.7 ...", "application/pdf"),
        ("image/png", b"sku;mass\n", "text/csv"),
        ("text/plain", b"\x00\x01\x02", "application/octet-stream"),
    ],
)
async def test_a_type_that_the_bytes_contradict_is_refused_with_what_was_found(
    admin: Api, mime_type: str, content: bytes, found: str
) -> None:
    document = await _document(admin, "OTHER")

    refused = await admin.post(f"/v1/documents/{document}/versions", _upload(content, mime_type))
    vague = await admin.made(f"/v1/documents/{document}/versions", _upload(content, "application/octet-stream"))

    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (422, "VALIDATION_ERROR")
    assert error["details"] == {"mime_type": mime_type, "found": found}
    assert error["message"] == (
        f"the file is `{found}` by its bytes, not `{mime_type}` as was said; say `{found}`, or send the file that was"
        " meant"
    )
    assert vague["version"] == 1


async def test_a_large_upload_is_decoded_in_pieces_as_if_it_were_one(admin: Api) -> None:
    document = await _document(admin, "OTHER")
    content = bytes(range(256)) * 6_000 + b"!"
    text = b64encode(content).decode()

    made = await admin.made(f"/v1/documents/{document}/versions", _upload(content, "application/octet-stream"))

    assert made["sha256"] == to_hex(sha256(content))
    for wrong in (text[:-1], text[:999_998] + "==" + text, text[:1_000_100] + "====" + text[1_000_100:], f"{text}%"):
        body = {"mime_type": "text/plain", "content_base64": wrong}
        answer = await admin.post(f"/v1/documents/{document}/versions", body)
        assert (answer.status_code, "not base64" in answer.text) == (422, True)


async def test_a_document_of_another_tenant_is_like_one_that_does_not_exist(admin: Api, rival: Api) -> None:
    document = await _document(admin)

    foreign = await rival.get(f"/v1/documents/{document}", headers={"X-Correlation-Id": document})
    unknown = await rival.get(f"/v1/documents/{fresh.new_id()}", headers={"X-Correlation-Id": document})

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json()["error"]["code"] == "NOT_FOUND"
