"""GraphQL: what REST shows, in one query, with the same permissions, tenants and cursors."""

from base64 import b64encode
from typing import Any

import asyncpg

from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.database import Database
from tests.api.conftest import Api


async def query_graphql(api: Api, query: str, **variables: Any) -> Any:
    """The answer, which must be one."""
    answer = await api.post("/v1/graphql", {"query": query, "variables": variables})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def _create_document(admin: Api, text: str) -> str:
    document = (await admin.post_json("/v1/documents", {"kind": "OTHER", "external_ref": text}))["document_id"]
    content = {"mime_type": "text/plain", "content_base64": b64encode(text.encode()).decode()}
    await admin.post_json(f"/v1/documents/{document}/versions", content)
    return str(document)


async def test_documents_and_their_versions_come_in_one_query(admin: Api) -> None:
    document = await _create_document(admin, "one")

    answer = await query_graphql(
        admin, "{ documents { items { documentId kind versions { items { version status } } } } }"
    )

    assert answer == {
        "data": {
            "documents": {
                "items": [
                    {
                        "documentId": document,
                        "kind": "OTHER",
                        "versions": {"items": [{"version": 1, "status": "UPLOADED"}]},
                    }
                ]
            }
        }
    }


async def test_a_list_is_walked_by_cursor_without_skipping_or_repeating(admin: Api) -> None:
    document_ids = {await _create_document(admin, str(number)) for number in range(5)}
    query = "query Q($after: String) { documents(first: 2, after: $after) { items { documentId } nextCursor } }"

    seen: list[str] = []
    cursor = None
    while True:
        page = (await query_graphql(admin, query, after=cursor))["data"]["documents"]
        seen += [item["documentId"] for item in page["items"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break

    assert len(seen) == 5
    assert set(seen) == document_ids


async def test_another_tenants_document_is_null_as_is_an_unknown_one(admin: Api, other_admin: Api) -> None:
    document = await _create_document(admin, "secret words")
    query = "query Q($id: Id!) { document(id: $id) { documentId } }"

    foreign = await other_admin.post("/v1/graphql", {"query": query, "variables": {"id": document}})
    unknown = await other_admin.post("/v1/graphql", {"query": query, "variables": {"id": str(clock.new_id())}})

    assert foreign.content == unknown.content == b'{"data":{"document":null}}'


async def test_a_field_without_its_permission_is_an_error_with_a_code_and_on_record(
    auditor: Api, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    query = "query Q($id: Id!) { passports { items { passportId } } a: document(id: $id) { kind } }"

    answer = await query_graphql(auditor, query, id=str(clock.new_id()))

    assert answer["data"] == {"passports": {"items": []}, "a": None}
    assert [error["extensions"]["code"] for error in answer["errors"]] == ["FORBIDDEN"]
    denied = await superuser.fetch("SELECT payload FROM events WHERE event_type = 'ACCESS_DENIED'")
    assert len(denied) == 1
    assert "docs:read" in denied[0]["payload"]


async def test_what_is_no_query_is_refused_in_the_shape_of_every_error(admin: Api) -> None:
    nul = '{ auditEvents(eventType: "a\\u0000b") { nextCursor } }'
    for query in ("{", "mutation { x }", "{ nope }", "{ documents(first: 0) { nextCursor } }", "\x00", nul):
        answer = await admin.post("/v1/graphql", {"query": query})

        body = answer.json()
        problem = body["error"] if answer.status_code == 422 else body["errors"][0]["extensions"]
        assert problem["code"] == "VALIDATION_ERROR", answer.text


async def test_a_query_that_gives_too_much_is_refused_by_what_its_lists_really_hold(
    admin: Api, database: Database, tenant: TenantId
) -> None:
    large = "{ passports(first: 200) { items { versions(first: 200) { items { status } } } } }"
    assert (await admin.post("/v1/graphql", {"query": large})).status_code == 200, "there is next to nothing"
    async with database.tenant(tenant) as conn:
        await conn.execute(
            """INSERT INTO documents (tenant_id, document_id, kind)
               SELECT $1, gen_random_uuid(), 'OTHER' FROM generate_series(1, 200)""",
            tenant,
        )
    query = "{" + " ".join(f"a{n}:documents(first:200){{items{{kind}}}}" for n in range(25)) + "}"

    answer = await admin.post("/v1/graphql", {"query": query})

    assert answer.status_code == 422
    assert answer.json()["error"]["details"] == {"limit": "cost", "most": 5000}


async def test_the_operation_that_is_to_run_has_to_be_there(admin: Api) -> None:
    query = "query A { documents { nextCursor } } query B { documents { nextCursor } }"

    named = await admin.post("/v1/graphql", {"query": query, "operationName": "A"})
    unknown = await admin.post("/v1/graphql", {"query": query, "operationName": "C"})
    unnamed = await admin.post("/v1/graphql", {"query": query})

    assert [answer.status_code for answer in (named, unknown, unnamed)] == [200, 422, 422]


async def test_what_a_policy_denies_by_id_is_denied_inside_a_list_too(admin: Api, officer: Api) -> None:
    document = await _create_document(admin, "denied")
    resource = {"type": "Document", "ids": [document]}
    body = {"name": "no", "effect": "DENY", "target": "docs:read", "policy_json": {"resource": resource}}
    await admin.post_json("/v1/policies", body)

    answer = await query_graphql(officer, "{ documents { items { documentId versions { items { version } } } } }")

    assert answer["data"] is None
    assert [error["extensions"]["code"] for error in answer["errors"]] == ["FORBIDDEN"]


async def test_a_variable_of_the_wrong_kind_is_the_senders_mistake(admin: Api) -> None:
    query = "query Q($id: Id!) { document(id: $id) { kind } }"

    kinds: list[Any] = [{"x": 1}, 7, "not an id", [], None]
    for wrong in kinds:
        answer = await query_graphql(admin, query, id=wrong)

        assert [error["extensions"]["code"] for error in answer["errors"]] == ["VALIDATION_ERROR"]
