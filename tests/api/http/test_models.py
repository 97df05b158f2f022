"""Pages: walking a list while others write sees every row that was there exactly once."""

import asyncio
from typing import Any

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.evidence import documents
from tests.api.conftest import Api
from tests.measurements import RecordMeasurement, choose_effort

MAKE = """
    INSERT INTO documents (tenant_id, document_id, kind, created_at)
    SELECT $1, gen_random_uuid(), 'BOM', now() - make_interval(secs => n / 7) FROM generate_series(1, $2) AS n
"""


async def _get_page(api: Api, limit: int, cursor: str | None) -> Any:
    query: dict[str, Any] = {"limit": limit} if cursor is None else {"limit": limit, "cursor": cursor}
    return await api.get_json("/v1/documents", params=query)


async def _list_all(api: Api, limit: int) -> list[str]:
    seen, cursor = [], None
    while True:
        page = await _get_page(api, limit, cursor)
        seen += [item["document_id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return seen


async def test_a_walk_while_others_insert_skips_nothing_and_repeats_nothing(
    admin: Api, database: Database, superuser: Connection, tenant: TenantId, record_measurement: RecordMeasurement
) -> None:
    rows = choose_effort(test=2_000, shown=20_000, campaign=100_000)
    await superuser.execute(MAKE, tenant, rows)  # seven rows of each moment: the id decides among them
    before = {str(row["document_id"]) for row in await superuser.fetch("SELECT document_id FROM documents")}
    written = 0

    async def write() -> None:
        nonlocal written
        while True:
            async with database.tenant(tenant) as conn:
                act = Act(None, clock.now())
                await documents.create_document(conn, tenant, kind="BOM", external_ref=None, act=act)
            written += 1

    writers = [asyncio.create_task(write()) for _ in range(2)]
    seen = await _list_all(admin, 97 if rows < 50_000 else 200)
    for writer in writers:
        writer.cancel()
    await asyncio.wait(writers)

    assert written > 0
    assert len(seen) == len(set(seen))
    assert before <= set(seen)
    skipped, repeated = len(before - set(seen)), len(seen) - len(set(seen))
    record_measurement("paging", rows=rows, written_meanwhile=written, skipped=skipped, repeated=repeated)


async def test_every_limit_gives_the_same_list(admin: Api, superuser: Connection, tenant: TenantId) -> None:
    await superuser.execute(MAKE, tenant, 30)

    walks = [await _list_all(admin, limit) for limit in (1, 7, 15, 29, 30, 31, 200)]

    assert all(walk == walks[0] for walk in walks)
    assert len(walks[0]) == 30


async def test_a_page_has_at_most_fifty_items_unless_more_are_asked_for(
    admin: Api, superuser: Connection, tenant: TenantId
) -> None:
    await superuser.execute(MAKE, tenant, 60)

    assert len((await admin.get_json("/v1/documents"))["items"]) == 50
    for limit in (0, -1, 201, 10**30):
        assert (await admin.get("/v1/documents", params={"limit": limit})).status_code == 422


async def test_a_cursor_opens_the_list_it_was_made_for_only(
    admin: Api, officer: Api, other_admin: Api, superuser: Connection, tenant: TenantId
) -> None:
    await superuser.execute(MAKE, tenant, 3)
    cursor = (await _get_page(admin, 1, None))["next_cursor"]
    document = (await _get_page(admin, 1, None))["items"][0]["document_id"]

    assert (await officer.get("/v1/documents", params={"cursor": cursor})).status_code == 200
    for api, path in ((other_admin, "/v1/documents"), (admin, f"/v1/documents/{document}/versions")):
        answer = await api.get(path, params={"cursor": cursor})

        assert answer.status_code == 422
        assert "cursor" in answer.json()["error"]["message"]
