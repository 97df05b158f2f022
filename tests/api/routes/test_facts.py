"""Facts over HTTP: what documents say, each thing once, found by type, key and document."""

from typing import Any
from uuid import UUID

import pytest

from bpc.api.http.request_context import Service
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.runtime import clock
from bpc.storage.evidence import facts
from tests.api.conftest import Api
from tests.api.evidence_fixtures import (
    BOM,
    create_facts,
    create_ready_snapshot,
    run_all_jobs,
    upload_and_parse,
    upload_document,
)


async def _list_all(api: Api, path: str, *, limit: int = 2) -> list[Any]:
    """Every item of a list, read page by page."""
    items: list[Any] = []
    cursor = ""
    while True:
        page = await api.get_json(f"{path}{'&' if '?' in path else '?'}limit={limit}{cursor}")
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = f"&cursor={page['next_cursor']}"


async def test_an_uploaded_document_becomes_facts_with_their_source(admin: Api, service: Service) -> None:
    version = await upload_and_parse(admin, service, BOM)

    items = await _list_all(admin, "/v1/facts")

    assert (await admin.get_json(f"/v1/document-versions/{version}"))["status"] == "VALIDATED"
    assert {item["fact_key"]: item["payload"] for item in items} == {
        "battery:SKU-1": {"capacity_kwh": "75.500000", "name": "Cell", "sku": "SKU-1"},
        "component:SKU-1:cell": {"mass_g": "120.500000", "part": "cell", "sku": "SKU-1"},
        "component:SKU-1:casing": {"mass_g": "80.000000", "part": "casing", "sku": "SKU-1"},
    }
    for item in items:
        assert item["payload_hash"] == to_hex(sha256(canonical_json.encode(item["payload"])))
        assert item["source_document_version_id"] == version
        assert item["sources"] == [{"document_version_id": version, "source_path": item["source_path"]}]
    assert {item["source_path"] for item in items} == {"$.battery", "$.components[0]", "$.components[1]"}


async def test_facts_are_listed_newest_first_and_each_once(admin: Api, service: Service) -> None:
    for number in range(5):
        await upload_and_parse(admin, service, {"sku": f"SKU-{number}"}, kind="PCF")

    items = await _list_all(admin, "/v1/facts")

    assert [item["fact_key"] for item in items] == [f"pcf:SKU-{number}" for number in (4, 3, 2, 1, 0)]


async def test_facts_are_found_by_type(admin: Api, service: Service) -> None:
    await upload_and_parse(admin, service, BOM)

    items = await _list_all(admin, "/v1/facts?fact_type=Component", limit=1)

    assert sorted(item["fact_key"] for item in items) == ["component:SKU-1:casing", "component:SKU-1:cell"]
    assert await _list_all(admin, "/v1/facts?fact_type=Nothing") == []


async def test_a_prefix_is_taken_to_the_letter(admin: Api, service: Service) -> None:
    skus = ["A_1", "A%1", "AX1", "A\\1", "ä1", "a_1", "A_", "A_2", "\U0010ffff", "\ud7ff", "\ue000"]
    await upload_and_parse(admin, service, [{"sku": sku} for sku in skus], kind="PCF")

    for prefix in ("A_", "A%", "A\\", "A", "ä", "\U0010ffff", "\ud7ff", "AX1", "AX12"):
        for also in ({}, {"fact_type": "PCF"}):
            listed = await admin.get_json("/v1/facts", params={"fact_key_prefix": f"pcf:{prefix}", **also})

            fact_keys = [item["fact_key"] for item in listed["items"]]
            assert fact_keys == sorted((f"pcf:{sku}" for sku in skus if sku.startswith(prefix)), reverse=True)
    assert (await admin.get_json("/v1/facts", params={"fact_key_prefix": "\U0010ffff"}))["items"] == []


async def test_facts_of_one_key_come_newest_first_over_several_pages(admin: Api, service: Service) -> None:
    for total in range(1, 4):
        await upload_and_parse(admin, service, [{"sku": sku, "total_gco2e": total} for sku in ("A", "B")], kind="PCF")

    for query in ("fact_key_prefix=pcf:", "fact_key_prefix=pcf:&fact_type=PCF"):
        items = await _list_all(admin, f"/v1/facts?{query}")

        assert [(item["fact_key"], item["payload"]["total_gco2e"]) for item in items] == [
            (f"pcf:{sku}", f"{total}.00") for sku in ("B", "A") for total in (3, 2, 1)
        ]


async def test_the_facts_of_a_document_are_all_that_it_says_also_what_was_said_before(
    admin: Api, service: Service
) -> None:
    first = await upload_and_parse(admin, service, {"sku": "A"}, kind="PCF")
    second = await upload_and_parse(
        admin, service, [{"sku": "A"}, {"sku": "B"}, {"sku": "A"}, {"sku": "C"}], kind="PCF"
    )

    items = await _list_all(admin, f"/v1/facts?document_version_id={second}", limit=1)

    assert sorted(item["fact_key"] for item in items) == ["pcf:A", "pcf:B", "pcf:C"]
    [said_twice] = [item for item in items if item["fact_key"] == "pcf:A"]
    assert said_twice["source_document_version_id"] == first
    assert sorted(source["source_path"] for source in said_twice["sources"]) == ["$", "$[0]", "$[2]"]
    by_prefix = await _list_all(admin, f"/v1/facts?document_version_id={second}&fact_key_prefix=pcf:B")
    assert [item["fact_key"] for item in by_prefix] == ["pcf:B"]
    assert await _list_all(admin, f"/v1/facts?document_version_id={second}&fact_type=Battery") == []
    assert await _list_all(admin, f"/v1/facts?document_version_id={clock.new_id()}") == []


async def test_a_fact_is_found_by_its_id_and_a_foreign_one_is_like_an_unknown_one(
    admin: Api, other_admin: Api, service: Service
) -> None:
    [fact] = await create_facts(admin, service, {"sku": "A"}, kind="PCF")

    assert (await admin.get_json(f"/v1/facts/{fact}"))["fact_key"] == "pcf:A"
    foreign = await other_admin.get(f"/v1/facts/{fact}", headers={"X-Correlation-Id": fact})
    assert foreign.status_code == 404
    assert foreign.json()["error"]["message"].startswith(f"there is no fact `{fact}`")
    assert (await other_admin.get_json("/v1/facts"))["items"] == []
    assert (await admin.get("/v1/facts/1")).status_code == 422


async def test_a_fact_that_much_says_shows_the_first_of_its_sources_and_how_many_there_are(
    admin: Api, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    [fact] = await create_facts(admin, service, [{"sku": "A"}, {"sku": "A"}, {"sku": "A"}], kind="PCF")
    answer = await admin.get_json(f"/v1/facts/{fact}")

    monkeypatch.setattr(facts, "MAX_SOURCES", 2)
    first = await admin.get_json(f"/v1/facts/{fact}")

    assert (len(answer["sources"]), answer["sources_total"]) == (3, 3)
    assert (first["sources"], first["sources_total"]) == (answer["sources"][:2], 3)


async def test_the_secret_of_a_snapshot_is_nowhere_to_be_seen(admin: Api, service: Service, superuser: Any) -> None:
    snapshot = await create_ready_snapshot(admin, service, await create_facts(admin, service, {"sku": "A"}, kind="PCF"))
    secret: UUID = await superuser.fetchval("SELECT fact_id FROM facts WHERE fact_type = 'Blinding'")

    seen = [
        *await _list_all(admin, "/v1/facts"),
        *await _list_all(admin, "/v1/facts?fact_type=Blinding"),
        *await _list_all(admin, "/v1/facts?fact_key_prefix=blinding:"),
        *await _list_all(admin, "/v1/facts?fact_key_prefix=b&fact_type=Blinding"),
        *await _list_all(admin, f"/v1/snapshots/{snapshot}/items"),
    ]

    assert {item["fact_type"] for item in seen} == {"PCF"}
    assert (await admin.get(f"/v1/facts/{secret}")).status_code == 404


async def test_a_bad_document_is_rejected_with_all_its_problems_and_leaves_no_fact(
    admin: Api, service: Service, superuser: Any
) -> None:
    new_version = await upload_document(
        admin, b'{"battery":{"sku":"SKU-1","mass_kg":true},"components":[{"part":"cell"},{}]}'
    )
    await run_all_jobs(service)

    version = await admin.get_json(f"/v1/document-versions/{new_version['document_version_id']}")
    error = await superuser.fetchval(
        "SELECT last_error::jsonb FROM jobs.job WHERE job_id = $1", UUID(new_version["job_id"])
    )

    assert version["status"] == "REJECTED"
    assert (await admin.get_json("/v1/facts"))["items"] == []
    assert "VALIDATION_ERROR" in error
    assert "$.components[0].sku" in error
    assert "$.components[1].sku" in error
    assert [warning["at"] for warning in version["warnings"]] == ["$.battery.mass_kg"]


async def test_reading_facts_takes_the_right_to_read_documents(auditor: Api, officer: Api, anonymous: Api) -> None:
    assert (await officer.get("/v1/facts")).status_code == 200
    assert (await auditor.get("/v1/facts")).status_code == 403
    assert (await anonymous.get("/v1/facts")).status_code == 401
