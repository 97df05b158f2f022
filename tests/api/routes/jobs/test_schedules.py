"""Schedules over HTTP: created, changed, paused and deleted, each on record; only of types that make sense again."""

from typing import Any

import pytest
from service_jobs.schedules import submit_due_jobs
from service_jobs.testing import step_database_clock

from bpc.api.http.request_context import Service
from tests.api.conftest import Api

AUDIT = {"name": "more audits", "type": "REPLAY_AUDIT", "cron": "0 4 * * *", "input": {"sample": 7}}
DAY = 86_400.0


async def list_events(admin: Api, schedule: str) -> list[tuple[str, bool]]:
    params = {"aggregate_type": "Schedule", "aggregate_id": schedule}
    items = (await admin.get_json("/v1/audit/events", params=params))["items"]
    assert all(item["actor_id"] for item in items)
    return [(item["event_type"], item["payload"]["paused"]) for item in items[::-1]]


async def test_a_schedule_is_created_changed_paused_resumed_and_deleted_on_record(admin: Api, officer: Api) -> None:
    created = await admin.post_json("/v1/schedules", AUDIT)
    path = f"/v1/schedules/{created['schedule_id']}"
    changed = (await admin.send("PUT", path, {"cron": "30 5 * * 1", "time_zone": "Europe/Berlin"})).json()
    paused = await admin.post_json(f"{path}:pause", status=200)
    resumed = await admin.post_json(f"{path}:resume", status=200)
    listed = (await officer.get_json("/v1/schedules"))["items"]
    deleted = await admin.delete(path)

    assert (created["time_zone"], created["catch_up"], created["paused"]) == ("UTC", "one", False)
    assert (changed["cron"], changed["time_zone"], changed["name"]) == ("30 5 * * 1", "Europe/Berlin", "more audits")
    assert changed["next_at"] != created["next_at"]
    assert (paused["paused"], paused["next_at"], resumed["next_at"]) == (True, None, changed["next_at"])
    assert listed == [resumed]
    assert "sample" not in str(listed)
    assert (deleted.status_code, (await admin.get(path)).status_code) == (200, 404)
    assert await list_events(admin, created["schedule_id"]) == [
        ("SCHEDULE_CREATED", False),
        ("SCHEDULE_CHANGED", False),
        ("SCHEDULE_PAUSED", True),
        ("SCHEDULE_RESUMED", False),
        ("SCHEDULE_REMOVED", False),
    ]


async def test_a_scheduled_file_is_fetched_at_its_time_as_if_it_had_been_asked_for(
    admin: Api, service: Service, superuser: Any
) -> None:
    document = (await admin.post_json("/v1/documents", {"kind": "BOM"}))["document_id"]
    job_input = {"document_id": document, "file_url": "https://supplier.example/bom.json?secret=1"}
    await admin.post_json("/v1/schedules", AUDIT | {"type": "INGEST_DOCUMENT", "input": job_input})

    await step_database_clock(superuser, DAY)
    conn = await service.jobs.sessions.connect_worker("test")
    await submit_due_jobs(conn)
    await conn.close()

    jobs = (await admin.get_json("/v1/jobs", params={"subject_kind": "document", "subject_id": document}))["items"]
    assert [(job["type"], job["status"]) for job in jobs] == [("INGEST_DOCUMENT", "QUEUED")]
    assert await superuser.fetchval("SELECT limit_key FROM jobs.job_ready") == "ingest"


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"type": "SIGN_PASSPORT"}, 422, "cannot be scheduled"),
        ({"type": "RETENTION_SWEEP"}, 422, "cannot be scheduled"),
        ({"cron": "every day"}, 422, "cron"),
        ({"time_zone": "Europe/Atlantis"}, 422, "time zone"),
        ({"input": {}}, 422, "`input.sample`"),
        ({"input": {"sample": 1, "more": 2}}, 422, "`input.more`"),
        ({"type": "INGEST_DOCUMENT", "input": {"file_url": "https://a.example/"}}, 422, "`input.document_id`"),
        (
            {
                "type": "INGEST_DOCUMENT",
                "input": {"document_id": "0190a7c4-0000-7000-8000-000000000001", "file_url": "https://a.example/"},
            },
            404,
            "document",
        ),
    ],
)
async def test_what_cannot_be_scheduled_is_refused(admin: Api, change: dict[str, Any], code: int, words: str) -> None:
    refusal = await admin.post("/v1/schedules", AUDIT | change)

    assert (refusal.status_code, words in refusal.text) == (code, True), refusal.text
    assert (await admin.get_json("/v1/schedules"))["items"] == []


async def test_a_name_is_taken_once_and_only_those_who_administer_jobs_schedule(admin: Api, officer: Api) -> None:
    await admin.post_json("/v1/schedules", AUDIT)

    assert (await admin.post("/v1/schedules", AUDIT)).status_code == 409
    assert (await officer.post("/v1/schedules", AUDIT | {"name": "x"})).status_code == 403
