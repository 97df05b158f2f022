"""Suppliers over HTTP: created by name, ranked by who may decide, and their tables read as they declare."""

import asyncio
from typing import Any

import orjson
import pytest

from bpc.api.http.request_context import Service
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.evidence_fixtures import run_all_jobs
from tests.api.routes.test_uploads import list_statements, put, put_ok, read_error
from tests.measurements import choose_effort
from tests.pipeline.document_bombs import entities

CELLS, PACKS = "Example Cells GmbH", "Example Packs Ltd"
TABLE = b"sku;Masse [kg];Wert X\nA-1;1.000;2,5\n"


def make_mapping(**members: str | None) -> dict[str, Any]:
    """A mapping of the table above; `members` has the members of its columns X and Masse."""
    columns = [
        {"header": "sku", "member": "sku", "unit": None, "locale": None},
        {"header": "Masse [kg]", "member": members.get("mass", "mass_kg"), "unit": "kg", "locale": None},
        {"header": "Wert X", "member": members.get("x"), "unit": None, "locale": None},
    ]
    if columns[1]["member"] is None:
        columns[1]["unit"] = None
    sheet = {"name": "", "fact_types": ["Battery"], "orientation": "rows", "header_row": 1, "header_rows": 1}
    return {"sheets": [{**sheet, "columns": columns}]}


async def create_supplier(api: Api, name: str = CELLS, **members: Any) -> str:
    return str((await api.post_json("/v1/suppliers", {"name": name, **members}))["supplier_id"])


async def accept_mapping(api: Api, supplier: str, mapping: dict[str, Any], *, kind: str = "BOM") -> Any:
    return await api.post_json(f"/v1/suppliers/{supplier}/column-mappings", {"kind": kind, "mapping": mapping})


async def load_battery(api: Api, service: Service, sku: str = "A-1") -> Any:
    """What is known of the battery now."""
    await run_all_jobs(service)
    snapshot = (await api.post_json("/v1/snapshots", {"sku": sku}))["snapshot_id"]
    items = (await api.get_json(f"/v1/snapshots/{snapshot}/items"))["items"]
    return next(item["payload"] for item in items if item["fact_type"] == "Battery")


async def read_events(database: Database, tenant: TenantId, event_type: str) -> list[Any]:
    async with database.tenant(tenant) as conn:
        rows = await conn.fetch(
            "SELECT payload::text FROM events WHERE event_type = $1 ORDER BY occurred_at, event_id", event_type
        )
    return [orjson.loads(row["payload"]) for row in rows]


async def test_a_supplier_is_created_listed_and_changed(admin: Api) -> None:
    supplier = await create_supplier(admin, locale="comma")

    changed = await admin.send("PATCH", f"/v1/suppliers/{supplier}", {"locale": "point"})
    ranked = await admin.post_json(f"/v1/suppliers/{supplier}:rank", {"rank": 2}, status=200)
    cleared = await admin.send("PATCH", f"/v1/suppliers/{supplier}", {"locale": "unknown"})
    unranked = await admin.post_json(f"/v1/suppliers/{supplier}:rank", {}, status=200)

    assert (changed.json()["locale"], ranked["locale"], ranked["rank"]) == ("point", "point", 2)
    assert (cleared.json()["locale"], cleared.json()["rank"], unranked["rank"]) == (None, 2, None)
    [listed] = (await admin.get_json("/v1/suppliers", params={"name": CELLS}))["items"]
    assert listed == unranked == await admin.get_json(f"/v1/suppliers/{supplier}")


async def test_a_name_is_given_once(admin: Api) -> None:
    await create_supplier(admin)

    assert read_error(await admin.post("/v1/suppliers", {"name": CELLS}), 409)["code"] == "CONFLICT"


async def test_every_change_of_a_supplier_is_an_event_and_no_change_is_none(
    admin: Api, database: Database, tenant: TenantId
) -> None:
    supplier = await create_supplier(admin)
    for _ in range(2):
        await admin.post_json(f"/v1/suppliers/{supplier}:rank", {"rank": 1}, status=200)
        await accept_mapping(admin, supplier, make_mapping())

    assert await read_events(database, tenant, "SUPPLIER_CREATED") == [{"name": CELLS, "locale": None}]
    assert await read_events(database, tenant, "SUPPLIER_CHANGED") == [{"locale": None, "rank": 1}]
    [accepted] = await read_events(database, tenant, "COLUMN_MAPPING_ACCEPTED")
    assert (accepted["kind"], accepted["version"], accepted["mapping"]) == ("BOM", 1, make_mapping())


async def test_who_may_decide_conflicts_may_rank_and_nothing_else(admin: Api, officer: Api) -> None:
    supplier = await create_supplier(admin)

    ranked = await officer.post(f"/v1/suppliers/{supplier}:rank", {"rank": 1})
    changed = await officer.send("PATCH", f"/v1/suppliers/{supplier}", {"locale": "comma"})
    mapped = await officer.post(f"/v1/suppliers/{supplier}/column-mappings", {"kind": "BOM", "mapping": make_mapping()})

    assert (ranked.status_code, changed.status_code, mapped.status_code) == (200, 403, 403)


@pytest.mark.parametrize("rank", [0, -1, 1.5, "first"])
async def test_a_rank_is_a_number_from_one(admin: Api, rank: Any) -> None:
    supplier = await create_supplier(admin)

    assert read_error(await admin.post(f"/v1/suppliers/{supplier}:rank", {"rank": rank}), 422)


async def test_the_supplier_with_the_best_rank_is_believed_before_the_newest(admin: Api, service: Service) -> None:
    for number, supplier in enumerate([CELLS, PACKS, None]):
        query: Any = {} if supplier is None else {"supplier": supplier}
        content = orjson.dumps({"battery": {"sku": "A-1", "mass_kg": 400 + number}})
        await put_ok(admin, f"BOM-{number}", content, kind="BOM", **query)
    ids = {each["name"]: each["supplier_id"] for each in (await admin.get_json("/v1/suppliers"))["items"]}
    masses = [(await load_battery(admin, service))["mass_kg"]]

    for name, rank in [(PACKS, 2), (CELLS, 1), (CELLS, 3), (CELLS, None), (PACKS, None)]:
        await admin.post_json(f"/v1/suppliers/{ids[name]}:rank", {"rank": rank}, status=200)
        masses.append((await load_battery(admin, service))["mass_kg"])

    assert [mass.split(".")[0] for mass in masses] == ["402", "401", "400", "401", "401", "402"]


async def test_the_supplier_of_a_document_can_be_named_and_changed(
    admin: Api, database: Database, tenant: TenantId
) -> None:
    document = (await admin.post_json("/v1/documents", {"kind": "BOM"}))["document_id"]

    named = await admin.send("PATCH", f"/v1/documents/{document}", {"supplier": CELLS})
    again = await admin.send("PATCH", f"/v1/documents/{document}", {"supplier": CELLS})
    changed = await admin.send("PATCH", f"/v1/documents/{document}", {"supplier": PACKS, "locale": "comma"})
    nothing = await admin.send("PATCH", f"/v1/documents/{document}", {})

    assert (named.json()["supplier"], again.json()) == (CELLS, named.json())
    assert (changed.json()["supplier"], changed.json()["locale"]) == (PACKS, "comma")
    assert read_error(nothing, 422)
    assert len(await read_events(database, tenant, "DOCUMENT_CHANGED")) == 2


async def test_numbers_are_read_in_the_locale_of_the_supplier_or_of_the_document(admin: Api, service: Service) -> None:
    await create_supplier(admin, CELLS, locale="comma")
    await create_supplier(admin, PACKS, locale="comma")

    await put_ok(admin, "1", TABLE, kind="BOM", supplier=CELLS)
    await put_ok(admin, "2", TABLE.replace(b"A-1", b"B-1"), kind="BOM", supplier=PACKS, locale="point")
    await put_ok(admin, "3", TABLE.replace(b"A-1", b"C-1"), kind="BOM")

    assert (await load_battery(admin, service, "A-1"))["mass_kg"] == "1000.000000"
    assert (await load_battery(admin, service, "B-1"))["mass_kg"] == "1.000000"
    assert "mass_kg" not in await load_battery(admin, service, "C-1")  # nobody said what 1.000 is


async def test_the_options_are_on_record_with_what_was_read(
    admin: Api, service: Service, database: Database, tenant: TenantId
) -> None:
    await create_supplier(admin, locale="comma")
    await put_ok(admin, "1", TABLE, kind="BOM", supplier=CELLS)
    await put_ok(admin, "2", orjson.dumps({"battery": {"sku": "B-1"}}), kind="BOM", supplier=CELLS)
    await run_all_jobs(service)

    options = [event["options"] for event in await read_events(database, tenant, "FACTS_PARSED")]
    assert sorted(map(str, options)) == ["{'locale': 'comma'}", "{}"]


async def test_bytes_that_were_read_are_read_again_under_a_new_mapping(admin: Api, service: Service) -> None:
    first = await put_ok(admin, "BOM-1", TABLE, kind="BOM", supplier=CELLS, locale="comma")
    before = await load_battery(admin, service)
    supplier = (await admin.get_json("/v1/suppliers"))["items"][0]["supplier_id"]

    await accept_mapping(admin, supplier, make_mapping(x="capacity_kwh"))
    unchanged = await load_battery(admin, service)
    again = await put_ok(admin, "BOM-1", TABLE)
    after = await load_battery(admin, service)
    repeated = await put_ok(admin, "BOM-1", TABLE, status=200)

    assert before == unchanged == {"sku": "A-1", "mass_kg": "1000.000000"}
    assert after == {"sku": "A-1", "mass_kg": "1000.000000", "capacity_kwh": "2.500000"}
    assert (first["version"], again["version"], repeated["version"]) == (1, 2, 2)
    assert first["sha256"] == again["sha256"]
    versions = (await admin.get_json(f"/v1/documents/{first['document_id']}/versions"))["items"]
    assert {version["sha256"] for version in versions} == {first["sha256"]}
    content = await admin.get(f"/v1/document-versions/{again['document_version_id']}/content")
    assert content.content == TABLE
    assert len(await list_statements(admin, first["document_id"])) == 2


async def test_a_number_of_a_version_is_not_read_again_under_a_new_mapping(admin: Api, service: Service) -> None:
    first = await put_ok(admin, "BOM-1", TABLE, kind="BOM", supplier=CELLS, version_ref="1")
    await run_all_jobs(service)
    supplier = (await admin.get_json("/v1/suppliers"))["items"][0]["supplier_id"]
    await accept_mapping(admin, supplier, make_mapping(x="capacity_kwh"))

    again = await put_ok(admin, "BOM-1", TABLE, version_ref="1", status=200)

    assert again["document_version_id"] == first["document_version_id"]


async def test_the_same_bytes_of_two_suppliers_are_read_as_each_writes_numbers(admin: Api, service: Service) -> None:
    await create_supplier(admin, CELLS, locale="comma")
    await create_supplier(admin, PACKS, locale="point")

    cells = await put_ok(admin, "1", TABLE, kind="BOM", supplier=CELLS)
    packs = await put_ok(admin, "2", TABLE, kind="BOM", supplier=PACKS)
    await run_all_jobs(service)

    conflicts = (await admin.get_json("/v1/conflicts?sku=A-1"))["conflicts"]
    assert cells["document_version_id"] != packs["document_version_id"]
    assert {value["document_id"]: value["value"] for value in conflicts[0]["values"]} == {
        cells["document_id"]: "1000.000000",
        packs["document_id"]: "1.000000",
    }


async def test_a_reading_that_is_rejected_leaves_the_one_before(admin: Api, service: Service) -> None:
    await put_ok(admin, "BOM-1", TABLE, kind="BOM", supplier=CELLS, locale="comma")
    before = await load_battery(admin, service)
    supplier = (await admin.get_json("/v1/suppliers"))["items"][0]["supplier_id"]
    without_key = make_mapping()
    without_key["sheets"][0]["columns"][0]["member"] = None
    await accept_mapping(admin, supplier, without_key)

    again = await put_ok(admin, "BOM-1", TABLE)
    after = await load_battery(admin, service)

    assert after == before
    newest, _ = await list_statements(admin, again["document_id"])
    assert (newest["document_version_id"], newest["status"]) == (again["document_version_id"], "REJECTED")


async def test_the_same_bytes_at_once_under_other_options_are_one_version_for_each(admin: Api) -> None:
    count = choose_effort(test=8, shown=40, campaign=100)
    for name, locale in [(CELLS, "comma"), (PACKS, "point")]:
        await create_supplier(admin, name, locale=locale)

    answers = await asyncio.gather(
        *(
            put(admin, f"BOM-{number}", TABLE, kind="BOM", supplier=CELLS if number % 2 else PACKS)
            for number in range(count)
        )
    )

    assert {answer.status_code for answer in answers} == {200, 201}, [answer.text for answer in answers]
    assert len({answer.json()["document_version_id"] for answer in answers}) == 2


async def test_mappings_are_versions_and_the_newest_of_a_kind_is_in_force(admin: Api) -> None:
    supplier = await create_supplier(admin)
    pcf = {
        "sheets": [
            {**make_mapping()["sheets"][0], "fact_types": ["PCF"], "columns": [{"header": "a", "member": "sku"}]}
        ]
    }
    for mapping in (make_mapping(), make_mapping(mass=None), make_mapping()):
        await accept_mapping(admin, supplier, mapping)
    await accept_mapping(admin, supplier, pcf, kind="PCF")

    listed = (await admin.get_json(f"/v1/suppliers/{supplier}/column-mappings"))["items"]
    page = await admin.get_json(f"/v1/suppliers/{supplier}/column-mappings", params={"kind": "BOM", "limit": 2})
    rest = await admin.get_json(
        f"/v1/suppliers/{supplier}/column-mappings",
        params={"kind": "BOM", "limit": 2, "cursor": page["next_cursor"]},
    )

    assert [(each["kind"], each["version"]) for each in listed] == [("PCF", 1), ("BOM", 3), ("BOM", 2), ("BOM", 1)]
    assert [each["version"] for each in page["items"] + rest["items"]] == [3, 2, 1]
    assert listed[1]["mapping"] == make_mapping()


async def test_everything_that_is_wrong_with_a_mapping_is_said(admin: Api) -> None:
    supplier = await create_supplier(admin)
    path = f"/v1/suppliers/{supplier}/column-mappings"
    wrong = make_mapping(x="mass_of_nothing")
    wrong["sheets"][0]["columns"][1]["unit"] = "V"

    problems = read_error(await admin.post(path, {"kind": "BOM", "mapping": wrong}), 422)["details"]["problems"]
    foreign = read_error(await admin.post(path, {"kind": "PCF", "mapping": make_mapping()}), 422)

    assert [problem["at"] for problem in problems] == ["$.sheets[0].columns[1].unit", "$.sheets[0].columns[2].member"]
    assert "documents of kind PCF do not have" in foreign["message"]


async def test_a_mapping_is_proposed_without_any_effect(admin: Api, database: Database, tenant: TenantId) -> None:
    async def count_events() -> int:
        async with database.tenant(tenant) as conn:
            return int(await conn.fetchval("SELECT count(*) FROM events"))

    before = await count_events()
    raw = await admin.send("POST", "/v1/documents:propose-mapping?kind=BOM", content=TABLE)
    form = await admin.send("POST", "/v1/documents:propose-mapping?kind=BOM", files={"file": ("a.csv", TABLE)})

    assert raw.status_code == 200, raw.text
    assert raw.json() == form.json()
    assert await count_events() == before
    [sheet] = raw.json()["sheets"]
    assert [(each["header"], each["member"], each["confidence"]) for each in sheet["columns"]] == [
        ("sku", "sku", "exact"),
        ("Masse [kg]", "mass_kg", "synonym"),
        ("Wert X", None, "none"),
    ]
    supplier = await create_supplier(admin)
    assert (await accept_mapping(admin, supplier, raw.json()["mapping"]))["version"] == 1


async def test_a_bomb_gets_no_proposal(admin: Api) -> None:
    answer = await admin.send("POST", "/v1/documents:propose-mapping?kind=BOM", content=entities())

    assert answer.status_code == 422 or (answer.status_code == 200 and answer.json()["mapping"] is None), answer.text


async def test_a_file_that_is_no_table_gets_no_proposal_but_a_reason(admin: Api) -> None:
    answer = await admin.send("POST", "/v1/documents:propose-mapping?kind=BOM", content=b'{"battery":{"sku":"A-1"}}')

    assert (answer.status_code, answer.json()["mapping"]) == (200, None)
    assert answer.json()["problems"]
