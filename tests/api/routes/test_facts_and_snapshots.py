"""Snapshots over HTTP: collected, built, sealed; whatever is sealed has the hash of exactly what is in it."""

import asyncio
from typing import Any
from uuid import UUID

import httpx2
from tests.jobs.support.run_workers import run_worker

from bpc.api.http.request_context import Service
from bpc.core.facts.snapshot import FactRef, encode_snapshot
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import SnapshotId, TenantId
from bpc.runtime import clock
from bpc.storage.database import Database
from bpc.storage.evidence import snapshots
from tests.api.conftest import Api
from tests.api.evidence_fixtures import BOM, create_facts, create_ready_snapshot, create_snapshot, run_all_jobs


def _read_code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


async def _create_pcf_facts(api: Api, service: Service, *skus: str, total: int = 1) -> list[str]:
    return await create_facts(api, service, [{"sku": sku, "total_gco2e": total} for sku in skus], kind="PCF")


async def _list_event_types(superuser: Any, snapshot: str) -> list[str]:
    rows = await superuser.fetch(
        "SELECT event_type FROM events WHERE aggregate_type = 'DataSnapshot' AND aggregate_id = $1"
        " ORDER BY aggregate_version",
        UUID(snapshot),
    )
    return [row["event_type"] for row in rows]


async def test_a_snapshot_goes_from_building_to_ready_to_sealed(admin: Api, service: Service, superuser: Any) -> None:
    facts = await create_facts(admin, service, BOM)
    answer = await admin.post_json("/v1/snapshots", {"label": "March"})
    snapshot = answer["snapshot_id"]
    assert answer["status"] == "BUILDING"

    first = await admin.post_json(f"/v1/snapshots/{snapshot}/items", {"fact_id": facts[0]}, status=200)
    rest = await admin.post_json(f"/v1/snapshots/{snapshot}/items", {"fact_ids": facts}, status=200)
    await admin.post_json(f"/v1/snapshots/{snapshot}/build", status=202)
    await run_all_jobs(service)
    built = await admin.get_json(f"/v1/snapshots/{snapshot}")
    sealed = await admin.post_json(f"/v1/snapshots/{snapshot}/seal", status=200)

    assert first == {"snapshot_id": snapshot, "status": "BUILDING", "count": 1}
    assert rest == {"snapshot_id": snapshot, "status": "BUILDING", "count": 3}
    assert (built["status"], built["label"], built["count"]) == ("READY", "March", 3)
    assert (built["sealed_at"], built["snapshot_hash"]) == (None, None)
    assert (sealed["snapshot_id"], sealed["status"]) == (snapshot, "SEALED")
    body = await admin.get_json(f"/v1/snapshots/{snapshot}")
    assert (body["status"], body["count"], body["snapshot_hash"]) == ("SEALED", 3, sealed["snapshot_hash"])
    assert body["sealed_at"] is not None
    assert await _list_event_types(superuser, snapshot) == [
        "SNAPSHOT_CREATED",
        "SNAPSHOT_ITEMS_CHANGED",
        "SNAPSHOT_ITEMS_CHANGED",
        "SNAPSHOT_READY",
        "SNAPSHOT_SEALED",
    ]


async def test_the_hash_is_that_of_the_facts_and_of_one_secret(
    admin: Api, service: Service, database: Database, tenant: TenantId
) -> None:
    snapshot = await create_ready_snapshot(admin, service, await _create_pcf_facts(admin, service, "A", "B"))
    sealed = await admin.post_json(f"/v1/snapshots/{snapshot}/seal", status=200)

    async with database.tenant(tenant) as conn:
        stored = await snapshots.get_snapshot(conn, tenant, SnapshotId(UUID(snapshot)))
        facts = await snapshots.load_facts(conn, tenant, SnapshotId(UUID(snapshot)))

    refs = [FactRef(fact.fact_type, fact.fact_key, fact.digest()) for fact in facts]
    assert stored.snapshot_canonical == encode_snapshot(SnapshotId(UUID(snapshot)), refs)
    assert sealed["snapshot_hash"] == to_hex(sha256(stored.snapshot_canonical))
    assert sorted(fact.fact_key for fact in facts) == [f"blinding:{snapshot}", "pcf:A", "pcf:B"]
    assert stored.count == 2


async def test_snapshots_are_listed_newest_first(admin: Api) -> None:
    snapshot = [(await admin.post_json("/v1/snapshots"))["snapshot_id"] for _ in range(3)]

    first = await admin.get_json("/v1/snapshots?limit=2")
    second = await admin.get_json(f"/v1/snapshots?limit=2&cursor={first['next_cursor']}")

    assert [item["snapshot_id"] for item in first["items"] + second["items"]] == snapshot[::-1]
    assert second["next_cursor"] is None


async def test_the_facts_of_a_snapshot_are_listed_page_by_page(admin: Api, service: Service) -> None:
    facts = await create_facts(admin, service, BOM)
    snapshot = await create_ready_snapshot(admin, service, facts)

    first = await admin.get_json(f"/v1/snapshots/{snapshot}/items?limit=2")
    second = await admin.get_json(f"/v1/snapshots/{snapshot}/items?limit=2&cursor={first['next_cursor']}")

    items = first["items"] + second["items"]
    assert sorted(item["fact_id"] for item in items) == sorted(facts)
    assert second["next_cursor"] is None
    assert {**items[0], "sources_total": 1} == await admin.get_json(f"/v1/facts/{items[0]['fact_id']}")


async def test_changing_a_ready_snapshot_makes_it_build_again_with_the_same_secret(
    admin: Api, service: Service, superuser: Any
) -> None:
    one, other = await _create_pcf_facts(admin, service, "A", "B")
    snapshot = await create_ready_snapshot(admin, service, [one])

    added = await admin.post_json(f"/v1/snapshots/{snapshot}/items", {"fact_id": other}, status=200)
    await admin.post_json(f"/v1/snapshots/{snapshot}/build", status=202)
    await run_all_jobs(service)
    ready_again = (await admin.get_json(f"/v1/snapshots/{snapshot}"))["status"]
    removed = await admin.delete(f"/v1/snapshots/{snapshot}/items/{one}")

    assert (added["status"], added["count"]) == ("BUILDING", 2)
    assert ready_again == "READY"
    assert (removed.status_code, removed.json()["status"], removed.json()["count"]) == (200, "BUILDING", 1)
    assert await superuser.fetchval("SELECT count(*) FROM facts WHERE fact_type = 'Blinding'") == 1


async def test_adding_what_is_in_already_changes_nothing(admin: Api, service: Service, superuser: Any) -> None:
    facts = await _create_pcf_facts(admin, service, "A")
    snapshot = await create_ready_snapshot(admin, service, facts)

    again = await admin.post_json(f"/v1/snapshots/{snapshot}/items", {"fact_ids": facts * 2}, status=200)

    assert (again["status"], again["count"]) == ("READY", 1)
    assert (await _list_event_types(superuser, snapshot))[-1] == "SNAPSHOT_READY"


async def test_an_unknown_fact_refuses_the_whole_request(admin: Api, other_admin: Api, service: Service) -> None:
    [own_fact] = await _create_pcf_facts(admin, service, "A")
    [theirs] = await _create_pcf_facts(other_admin, service, "A")
    snapshot = (await admin.post_json("/v1/snapshots", {}))["snapshot_id"]

    for unknown in (theirs, str(clock.new_id())):
        answer = await admin.post(f"/v1/snapshots/{snapshot}/items", {"fact_ids": [own_fact, unknown]})

        assert _read_code(answer) == (404, "NOT_FOUND")
        assert answer.json()["error"]["message"].startswith(f"there is no fact `{unknown}`")
    assert (await admin.get_json(f"/v1/snapshots/{snapshot}"))["count"] == 0


async def test_the_secret_is_neither_taken_nor_given_away(admin: Api, service: Service, superuser: Any) -> None:
    snapshot = await create_ready_snapshot(admin, service, await _create_pcf_facts(admin, service, "A"))
    secret = str(await superuser.fetchval("SELECT fact_id FROM facts WHERE fact_type = 'Blinding'"))
    other = (await admin.post_json("/v1/snapshots", {}))["snapshot_id"]

    taken = await admin.post(f"/v1/snapshots/{other}/items", {"fact_id": secret})
    removed = await admin.delete(f"/v1/snapshots/{snapshot}/items/{secret}")

    assert _read_code(taken) == _read_code(removed) == (404, "NOT_FOUND")


async def test_items_are_sent_as_one_id_or_as_one_to_a_thousand(admin: Api) -> None:
    snapshot = (await admin.post_json("/v1/snapshots", {}))["snapshot_id"]
    one = str(clock.new_id())

    wrong: list[dict[str, Any]] = [
        {},
        {"fact_id": one, "fact_ids": [one]},
        {"fact_id": None, "fact_ids": None},
        {"fact_ids": []},
        {"fact_ids": [one] * 1001},
        {"fact_id": 1},
    ]
    for body in wrong:
        assert _read_code(await admin.post(f"/v1/snapshots/{snapshot}/items", body)) == (422, "VALIDATION_ERROR")


async def test_a_snapshot_without_facts_becomes_ready(admin: Api, service: Service) -> None:
    ready = (await admin.post_json("/v1/snapshots", {}))["snapshot_id"]

    await admin.post_json(f"/v1/snapshots/{ready}/build", status=202)
    await run_all_jobs(service)

    assert (await admin.get_json(f"/v1/snapshots/{ready}"))["status"] == "READY"
    assert (await admin.post_json(f"/v1/snapshots/{ready}/seal", status=200))["status"] == "SEALED"


async def test_a_snapshot_that_is_ready_is_not_built(admin: Api, service: Service) -> None:
    done = await create_ready_snapshot(admin, service, await _create_pcf_facts(admin, service, "A"))

    assert _read_code(await admin.post(f"/v1/snapshots/{done}/build")) == (409, "CONFLICT")


async def test_asking_twice_for_a_build_is_one_job_until_the_facts_change(admin: Api, service: Service) -> None:
    one, other = await _create_pcf_facts(admin, service, "A", "B")
    snapshot = await create_snapshot(admin, [one])

    first = await admin.post_json(f"/v1/snapshots/{snapshot}/build", status=202)
    again = await admin.post_json(f"/v1/snapshots/{snapshot}/build", status=202)
    await admin.post_json(f"/v1/snapshots/{snapshot}/items", {"fact_id": other}, status=200)
    changed = await admin.post_json(f"/v1/snapshots/{snapshot}/build", status=202)

    assert first == again != changed
    await run_all_jobs(service)
    assert (await admin.get_json(f"/v1/snapshots/{snapshot}"))["status"] == "READY"


async def test_two_facts_of_one_key_fail_the_build_by_name_until_one_is_removed(
    admin: Api, service: Service, superuser: Any
) -> None:
    [one] = await _create_pcf_facts(admin, service, "A", total=1)
    [other] = await _create_pcf_facts(admin, service, "A", total=2)
    snapshot = await create_snapshot(admin, [one, other])

    job = (await admin.post_json(f"/v1/snapshots/{snapshot}/build", status=202))["job_id"]
    await run_all_jobs(service)

    status, error = await superuser.fetchrow(
        "SELECT status, last_error::text FROM jobs.job WHERE job_id = $1", UUID(job)
    )
    assert status == "FAILED"
    assert one in error
    assert other in error
    assert (await admin.get_json(f"/v1/snapshots/{snapshot}"))["status"] == "BUILDING"
    assert await superuser.fetchval("SELECT count(*) FROM facts WHERE fact_type = 'Blinding'") == 0
    await admin.delete(f"/v1/snapshots/{snapshot}/items/{one}")
    await admin.post_json(f"/v1/snapshots/{snapshot}/build", status=202)
    await run_all_jobs(service)
    assert (await admin.get_json(f"/v1/snapshots/{snapshot}"))["status"] == "READY"


async def test_a_sealed_snapshot_is_for_ever(admin: Api, service: Service) -> None:
    one, other = await _create_pcf_facts(admin, service, "A", "B")
    snapshot = await create_ready_snapshot(admin, service, [one])
    await admin.post_json(f"/v1/snapshots/{snapshot}/seal", status=200)

    refused = [
        await admin.post(f"/v1/snapshots/{snapshot}/items", {"fact_id": other}),
        await admin.delete(f"/v1/snapshots/{snapshot}/items/{one}"),
        await admin.post(f"/v1/snapshots/{snapshot}/build"),
        await admin.post(f"/v1/snapshots/{snapshot}/seal"),
    ]

    assert {_read_code(answer) for answer in refused} == {(409, "SNAPSHOT_SEALED")}


async def test_only_a_ready_snapshot_is_sealed(admin: Api, service: Service) -> None:
    snapshot = await create_snapshot(admin, await _create_pcf_facts(admin, service, "A"))

    assert _read_code(await admin.post(f"/v1/snapshots/{snapshot}/seal")) == (409, "SNAPSHOT_NOT_READY")


async def test_a_fact_that_is_not_in_is_not_removed(admin: Api, service: Service) -> None:
    one, other = await _create_pcf_facts(admin, service, "A", "B")
    snapshot = await create_ready_snapshot(admin, service, [one])

    assert _read_code(await admin.delete(f"/v1/snapshots/{snapshot}/items/{other}")) == (404, "NOT_FOUND")
    assert (await admin.get_json(f"/v1/snapshots/{snapshot}"))["status"] == "READY"


async def test_a_foreign_snapshot_is_like_an_unknown_one(admin: Api, other_admin: Api, service: Service) -> None:
    facts = await _create_pcf_facts(other_admin, service, "A")
    snapshot = (await admin.post_json("/v1/snapshots", {}))["snapshot_id"]

    def answers(of: str) -> list[Any]:
        return [
            other_admin.get(f"/v1/snapshots/{of}"),
            other_admin.get(f"/v1/snapshots/{of}/items"),
            other_admin.post(f"/v1/snapshots/{of}/items", {"fact_ids": facts}),
            other_admin.delete(f"/v1/snapshots/{of}/items/{facts[0]}"),
            other_admin.post(f"/v1/snapshots/{of}/build"),
            other_admin.post(f"/v1/snapshots/{of}/seal"),
        ]

    for of in (snapshot, str(clock.new_id())):
        for answer in [await pending for pending in answers(of)]:
            assert _read_code(answer) == (404, "NOT_FOUND")
            assert answer.json()["error"]["message"].startswith(f"there is no snapshot `{of}`")


async def test_who_may_build_and_who_may_seal(officer: Api, auditor: Api) -> None:
    snapshot = (await officer.post_json("/v1/snapshots", {}))["snapshot_id"]

    assert (await officer.post(f"/v1/snapshots/{snapshot}/seal")).status_code == 409
    for path in ("/v1/snapshots", f"/v1/snapshots/{snapshot}", f"/v1/snapshots/{snapshot}/items"):
        assert _read_code(await auditor.get(path)) == (403, "FORBIDDEN")
    for path in ("", f"/{snapshot}/items", f"/{snapshot}/build", f"/{snapshot}/seal"):
        assert _read_code(await auditor.post(f"/v1/snapshots{path}", {})) == (403, "FORBIDDEN")


async def test_whatever_happens_at_once_the_hash_is_that_of_the_items(
    admin: Api, service: Service, superuser: Any
) -> None:
    facts = await _create_pcf_facts(admin, service, *(f"SKU-{number}" for number in range(12)))
    snapshot_ids = [await create_ready_snapshot(admin, service, facts[:2]) for _ in range(4)]

    async with run_worker(service.jobs):
        for snapshot in snapshot_ids:
            at = f"/v1/snapshots/{snapshot}"
            await asyncio.gather(
                *(admin.post(f"{at}/items", {"fact_id": fact}) for fact in facts[2:]),
                *(admin.post(f"{at}/build") for _ in range(4)),
                *(admin.delete(f"{at}/items/{fact}") for fact in facts[:2]),
                *(admin.post(f"{at}/seal") for _ in range(8)),
            )
            while (await admin.post(f"{at}/seal")).json().get("error", {}).get("code") == "SNAPSHOT_NOT_READY":
                await admin.post(f"{at}/build")

    for snapshot in snapshot_ids:
        assert (await admin.get_json(f"/v1/snapshots/{snapshot}"))["status"] == "SEALED"
        rows = await superuser.fetch(
            "SELECT fact_type, fact_key, payload_hash FROM snapshot_items JOIN facts USING (tenant_id, fact_id)"
            " WHERE snapshot_id = $1",
            UUID(snapshot),
        )
        refs = [FactRef(kind, key, Digest(digest)) for kind, key, digest in rows]
        stored = await superuser.fetchval(
            "SELECT snapshot_hash FROM data_snapshots WHERE snapshot_id = $1", UUID(snapshot)
        )
        assert stored == sha256(encode_snapshot(SnapshotId(UUID(snapshot)), refs))
        assert [kind for kind, _, _ in refs].count("Blinding") == 1
        types = await _list_event_types(superuser, snapshot)
        assert types[-2:] == ["SNAPSHOT_READY", "SNAPSHOT_SEALED"]
        assert types.count("SNAPSHOT_SEALED") == 1
