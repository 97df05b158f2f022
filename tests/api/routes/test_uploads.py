"""Uploads in one call: a reference finds or creates its document, and a repeated run changes nothing."""

import asyncio
from base64 import b64encode
from collections import Counter
from typing import Any
from uuid import UUID

import httpx2
import orjson
import pytest

from bpc.api.http.request_context import Service
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.evidence_fixtures import run_all_jobs
from tests.measurements import choose_effort
from tests.tasks.retention_fixtures import age_row, run_all_parts
from tools import reference_input

PCF: Any = {"kind": "PCF"}


def footprint(total: int) -> bytes:
    return orjson.dumps({"sku": "A-1", "total_gco2e": total})


async def put(api: Api, ref: str, content: bytes, *, headers: Any = None, **query: Any) -> httpx2.Response:
    return await api.send("PUT", f"/v1/documents/by-ref/{ref}", content=content, params=query, headers=headers)


async def put_ok(api: Api, ref: str, content: bytes, *, status: int = 201, **query: Any) -> Any:
    answer = await put(api, ref, content, **query)
    assert answer.status_code == status, answer.text
    return answer.json()


def read_error(answer: httpx2.Response, status: int) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


async def list_statements(api: Api, document: str) -> list[Any]:
    statements: list[Any] = (await api.get_json(f"/v1/documents/{document}/statements"))["items"]
    return statements


async def count_rows(database: Database, tenant: TenantId) -> dict[str, int]:
    tables = ("documents", "document_versions", "document_statements", "document_version_refs", "suppliers", "events")
    async with database.tenant(tenant) as conn:
        return {table: await conn.fetchval(f"SELECT count(*) FROM {table}") for table in tables}


async def test_one_call_creates_the_document_and_the_next_adds_a_version(admin: Api, service: Service) -> None:
    first = await put_ok(admin, "ERP-4711", footprint(86_700), **PCF)
    second = await put_ok(admin, "ERP-4711", footprint(79_000))
    again = await put_ok(admin, "ERP-4711", footprint(79_000), status=200)
    back = await put_ok(admin, "ERP-4711", footprint(86_700), status=200)
    await run_all_jobs(service)

    assert first["document_id"] == second["document_id"] == again["document_id"] == back["document_id"]
    assert [first["version"], second["version"], again["version"], back["version"]] == [1, 2, 2, 1]
    document = await admin.get_json(f"/v1/documents/{first['document_id']}")
    assert (document["kind"], document["external_ref"]) == ("PCF", "ERP-4711")
    statements = await list_statements(admin, first["document_id"])
    assert [(each["sequence"], each["status"]) for each in statements] == [
        (3, "VALIDATED"),
        (2, "VALIDATED"),
        (1, "VALIDATED"),
    ]


async def test_a_form_says_the_same_as_the_query(admin: Api) -> None:
    fields = {"kind": "PCF", "supplier": "Example Cells GmbH", "locale": "comma", "version_ref": "7"}
    files = {"file": ("folder\\Fußabdruck.json", footprint(86_700), "application/json")}

    answer = await admin.send("PUT", "/v1/documents/by-ref/ERP-4711", data=fields, files=files)

    assert answer.status_code == 201, answer.text
    document = await admin.get_json(f"/v1/documents/{answer.json()['document_id']}")
    assert (document["kind"], document["supplier"], document["locale"]) == ("PCF", "Example Cells GmbH", "comma")
    [statement] = await list_statements(admin, document["document_id"])
    assert statement["file_name"] == "Fußabdruck.json"
    version = await admin.get_json(f"/v1/document-versions/{answer.json()['document_version_id']}")
    assert version["mime_type"] == "application/json"
    assert (await put_ok(admin, "ERP-4711", footprint(86_700), status=200, version_ref="7"))["version"] == 1


async def test_a_form_that_is_sent_again_with_another_boundary_gets_the_first_answer(admin: Api) -> None:
    async def send(boundary: str, total: int) -> httpx2.Response:
        lines = [f"--{boundary}", 'Content-Disposition: form-data; name="f"; filename="a.json"', "", ""]
        content = "\r\n".join(lines).encode() + footprint(total) + f"\r\n--{boundary}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        path = "/v1/documents/by-ref/ERP-4711?kind=PCF"
        return await admin.send("PUT", path, content=content, headers=headers, idempotency_key="run-1")

    first, again, other = await send("one", 1), await send("two", 1), await send("one", 2)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert read_error(other, 409)["code"] == "IDEMPOTENCY_CONFLICT"


@pytest.mark.parametrize(
    ("headers", "query", "name"),
    [
        ({"Content-Disposition": "attachment; filename*=UTF-8''B%C3%BCro%2Fpcf.json"}, {}, "pcf.json"),
        ({}, {"file_name": "../../etc/pcf\u202e.json"}, "pcf.json"),
        ({"Content-Disposition": 'attachment; filename="a.json"'}, {"file_name": "b.json"}, "a.json"),
        ({}, {}, None),
    ],
)
async def test_the_name_of_the_file_is_kept_without_folders(
    admin: Api, headers: Any, query: dict[str, str], name: str | None
) -> None:
    answer = await put(admin, "ERP-4711", footprint(1), headers=headers, **PCF, **query)

    [statement] = await list_statements(admin, answer.json()["document_id"])
    assert statement["file_name"] == name


async def test_the_two_step_way_keeps_the_name_and_the_supplier_too(admin: Api) -> None:
    document = await admin.post_json("/v1/documents", {"kind": "PCF", "supplier": "Example Cells GmbH"})
    body = {
        "mime_type": "application/json",
        "content_base64": b64encode(footprint(1)).decode(),
        "file_name": "a/b.json",
    }
    await admin.post_json(f"/v1/documents/{document['document_id']}/versions", body)

    [statement] = await list_statements(admin, document["document_id"])
    assert statement["file_name"] == "b.json"
    assert (await admin.get_json(f"/v1/documents/{document['document_id']}"))["supplier"] == "Example Cells GmbH"


async def test_a_second_run_of_an_importer_changes_nothing(admin: Api, database: Database, tenant: TenantId) -> None:
    runs = [("1", 86_700), ("2", 79_000)]
    supplier: Any = {"supplier": "Example Cells GmbH"}
    first = [await put_ok(admin, "PCF-1", footprint(total), version_ref=ref, **PCF, **supplier) for ref, total in runs]
    before = await count_rows(database, tenant)

    second = [
        await put_ok(admin, "PCF-1", footprint(total), status=200, version_ref=ref, **PCF, supplier="Somebody else")
        for ref, total in runs
    ]

    assert await count_rows(database, tenant) == before
    assert second == first
    newest = (await list_statements(admin, first[0]["document_id"]))[0]
    assert newest["document_version_id"] == first[1]["document_version_id"]


async def test_without_a_number_of_the_version_older_bytes_are_a_correction(admin: Api) -> None:
    first = await put_ok(admin, "PCF-1", footprint(86_700), **PCF)
    await put_ok(admin, "PCF-1", footprint(79_000))

    again = await put_ok(admin, "PCF-1", footprint(86_700), status=200)

    newest = (await list_statements(admin, first["document_id"]))[0]
    assert newest["document_version_id"] == again["document_version_id"] == first["document_version_id"]


async def test_a_number_of_a_version_stands_for_its_bytes_only(admin: Api) -> None:
    first = await put_ok(admin, "PCF-1", footprint(86_700), version_ref="1", **PCF)

    error = read_error(await put(admin, "PCF-1", footprint(79_000), version_ref="1"), 409)

    assert error["code"] == "CONFLICT"
    assert error["details"] == {key: first[key] for key in ("document_version_id", "version", "sha256")}


async def test_a_new_number_for_the_same_bytes_names_the_same_version(admin: Api) -> None:
    first = await put_ok(admin, "PCF-1", footprint(86_700), version_ref="1", **PCF)

    again = await put_ok(admin, "PCF-1", footprint(86_700), version_ref="2", status=200)

    assert again["document_version_id"] == first["document_version_id"]


async def test_uploads_at_once_with_one_reference_create_one_document(
    admin: Api, database: Database, tenant: TenantId
) -> None:
    count = choose_effort(test=8, shown=40, campaign=40)
    for round_number in range(choose_effort(test=3, shown=20, campaign=100)):
        answers = await asyncio.gather(
            *(
                put(
                    admin,
                    f"ERP-{round_number}",
                    footprint(1_000 * round_number + number),
                    supplier=f"S-{round_number}",
                    **PCF,
                )
                for number in range(count)
            )
        )

        assert [answer.status_code for answer in answers] == [201] * count, [answer.text for answer in answers]
        assert len({answer.json()["document_id"] for answer in answers}) == 1
    rows = await count_rows(database, tenant)
    assert (rows["documents"], rows["suppliers"]) == (round_number + 1, round_number + 1)


async def test_the_same_number_of_a_version_at_once_is_one_statement(admin: Api) -> None:
    answers = await asyncio.gather(
        *(
            put(admin, "ERP-1", footprint(1), version_ref="1", **PCF)
            for _ in range(choose_effort(test=8, shown=40, campaign=40))
        )
    )

    assert Counter(answer.status_code for answer in answers)[201] == 1
    assert len(await list_statements(admin, answers[0].json()["document_id"])) == 1


async def test_several_documents_with_the_reference_are_a_conflict_with_their_ids(admin: Api) -> None:
    documents = [await admin.post_json("/v1/documents", {"kind": "PCF", "external_ref": "ERP-1"}) for _ in range(2)]

    error = read_error(await put(admin, "ERP-1", footprint(1), **PCF), 409)

    assert error["details"]["document_ids"] == [document["document_id"] for document in documents]


async def test_the_one_document_with_the_reference_is_used_and_stays_the_one(admin: Api) -> None:
    old = await admin.post_json("/v1/documents", {"kind": "PCF", "external_ref": "ERP-1"})

    first = await put_ok(admin, "ERP-1", footprint(1))
    await admin.post_json("/v1/documents", {"kind": "PCF", "external_ref": "ERP-1"})
    second = await put_ok(admin, "ERP-1", footprint(2))

    assert first["document_id"] == second["document_id"] == old["document_id"]


async def test_a_document_of_another_kind_is_a_conflict(admin: Api) -> None:
    await put_ok(admin, "ERP-1", footprint(1), **PCF)

    error = read_error(await put(admin, "ERP-1", footprint(2), kind="BOM"), 409)

    assert error["details"]["kind"] == "PCF"


async def test_a_reference_may_have_slashes_and_any_letters(admin: Api) -> None:
    uploaded = await put_ok(admin, "Werk 4/Größe/ä?".replace("?", "%3F").replace(" ", "%20"), footprint(1), **PCF)

    document = await admin.get_json(f"/v1/documents/{uploaded['document_id']}")
    assert document["external_ref"] == "Werk 4/Größe/ä?"


REFUSED: dict[str, tuple[str, bytes, dict[str, str], dict[str, str], int, str]] = {
    "an unknown document without a kind": ("ERP-1", footprint(1), {}, {}, 422, "name the `kind`"),
    "an empty file": ("ERP-1", b"", PCF, {}, 422, "the file is empty"),
    "an unknown kind": ("ERP-1", footprint(1), {"kind": "BILL"}, {}, 422, "kind"),
    "an unknown locale": ("ERP-1", footprint(1), {**PCF, "locale": "de"}, {}, 422, "locale"),
    "an unknown parameter": ("ERP-1", footprint(1), {**PCF, "suplier": "x"}, {}, 422, "`suplier`"),
    "bytes of another type": ("ERP-1", footprint(1), PCF, {"Content-Type": "application/pdf"}, 422, "as declared"),
    "an invalid media type": ("ERP-1", footprint(1), PCF, {"Content-Type": "nothing"}, 422, "not a media type"),
    "a broken form": ("ERP-1", b"x", PCF, {"Content-Type": "multipart/form-data; boundary=x"}, 422, "cut off"),
    "a reference that proxies change": ("a//b", footprint(1), PCF, {}, 422, "by its id"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_wrong_is_refused_and_nothing_is_created(
    admin: Api, database: Database, tenant: TenantId, name: str
) -> None:
    ref, content, query, headers, status, says = REFUSED[name]
    before = await count_rows(database, tenant)

    error = read_error(await put(admin, ref, content, headers=headers, **query), status)

    assert says in error["message"] + str(error["details"])
    assert await count_rows(database, tenant) == before


async def test_a_field_of_a_form_that_is_unknown_or_contradicts_the_query_is_refused(admin: Api) -> None:
    for fields, says in [
        ({"suplier": "x"}, "suplier"),
        ({"kind": "BOM"}, "with another value"),
        ({"kind": "X"}, "kind"),
    ]:
        path = "/v1/documents/by-ref/ERP-1" + ("?kind=PCF" if "kind" in fields and fields["kind"] == "BOM" else "")
        answer = await admin.send("PUT", path, data=fields, files={"file": ("a.json", footprint(1))})

        error = read_error(answer, 422)
        assert says in error["message"] + str(error["details"])


async def test_a_policy_about_a_document_holds_for_its_reference(admin: Api) -> None:
    uploaded = await put_ok(admin, "ERP-1", footprint(1), **PCF)
    conditions = {"resource": {"type": "Document", "ids": [uploaded["document_id"]]}}
    policy = {"name": "frozen", "effect": "DENY", "target": "docs:upload", "priority": 1, "policy_json": conditions}
    await admin.post_json("/v1/policies", policy)

    refused = await put(admin, "ERP-1", footprint(2))
    other = await put(admin, uploaded["document_id"], footprint(2), **PCF)

    assert read_error(refused, 403)["code"] == "FORBIDDEN"
    assert other.status_code == 201  # a reference that looks like an id is a reference


async def test_an_upload_by_ref_needs_the_permission(officer: Api) -> None:
    assert read_error(await put(officer, "ERP-1", footprint(1), **PCF), 403)["details"]["permission"] == "docs:upload"


async def test_bytes_that_retention_removed_come_back_when_they_are_uploaded_again(
    admin: Api, service: Service, database: Database, tenant: TenantId
) -> None:
    pdf = reference_input.make_pdf("Declaration")
    files: list[tuple[str, bytes, Any]] = [
        ("PCF-1", footprint(79_000), {**PCF, "version_ref": "1"}),
        ("PCF-2", footprint(80_000), PCF),
        ("DOC-1", pdf, {"kind": "OTHER"}),
    ]
    versions = [(await put_ok(admin, ref, content, **query))["document_version_id"] for ref, content, query in files]
    await run_all_jobs(service)
    for version in versions:
        await age_row(database, "document_versions", "uploaded_at", UUID(version))
    assert (await run_all_parts(database, tenant)).document_versions == 3
    gone = read_error(await admin.get(f"/v1/document-versions/{versions[0]}/content"), 410)
    assert (gone["code"], "upload it again" in str(gone)) == ("NOT_FOUND", True)
    attachment = {"sku": "A-1", "data_point": 42, "document_version_id": versions[2]}
    await admin.post_json("/v1/attachments", attachment, status=409)

    again = [await put_ok(admin, ref, content, status=200, **query) for ref, content, query in files]
    await run_all_jobs(service)

    assert [uploaded["document_version_id"] for uploaded in again] == versions
    for version, (_, content, _) in zip(versions, files, strict=True):
        assert (await admin.get(f"/v1/document-versions/{version}/content")).content == content
        row = await admin.get_json(f"/v1/document-versions/{version}")
        assert (row["size"], row["content_removed_at"]) == (len(content), None)
        params = {"aggregate_type": "DocumentVersion", "aggregate_id": version}
        events = (await admin.get_json("/v1/audit/events", params=params))["items"]
        assert events[0]["event_type"] == "DOCUMENT_CONTENT_RESTORED"
    await admin.post_json("/v1/attachments", attachment)
    # Its time starts again; once it is over, the bytes go and come once more.
    assert (await run_all_parts(database, tenant)).document_versions == 0
    await age_row(database, "document_versions", "content_restored_at", UUID(versions[1]))
    assert (await run_all_parts(database, tenant)).document_versions == 1
    await put_ok(admin, "PCF-2", footprint(80_000), status=200)
    assert (await admin.get(f"/v1/document-versions/{versions[1]}/content")).content == footprint(80_000)
    # Nothing is said anew: each document says what it said.
    assert [len(await list_statements(admin, uploaded["document_id"])) for uploaded in again] == [1, 1, 1]


async def test_bytes_that_were_removed_before_they_were_read_are_read_when_they_come_back(
    admin: Api, service: Service, database: Database, tenant: TenantId
) -> None:
    first = await put_ok(admin, "PCF-1", footprint(79_000), **PCF)
    await age_row(database, "document_versions", "uploaded_at", UUID(first["document_version_id"]))
    await run_all_parts(database, tenant)
    await run_all_jobs(service)
    unread = await admin.get_json(f"/v1/document-versions/{first['document_version_id']}")

    again = await asyncio.gather(*(put_ok(admin, "PCF-1", footprint(79_000), status=200) for _ in range(5)))
    await run_all_jobs(service)

    assert {uploaded["document_version_id"] for uploaded in again} == {first["document_version_id"]}
    read = await admin.get_json(f"/v1/document-versions/{first['document_version_id']}")
    assert (unread["status"], read["status"]) == ("UPLOADED", "VALIDATED")
    async with database.tenant(tenant) as conn:
        restored = "SELECT count(*) FROM events WHERE event_type = 'DOCUMENT_CONTENT_RESTORED'"
        assert await conn.fetchval(restored) == 1
