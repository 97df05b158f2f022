"""`bpc jobs schedule` and `bpc jobs schedules`: jobs that are submitted at set times, on record."""

import pytest
from service_jobs import schedules
from service_jobs.database import Sessions
from service_jobs.schedules import Schedule

from tests.cli.conftest import Installation
from tests.cli.run.job_queue import JobQueue


@pytest.fixture
def queue(installation: Installation) -> JobQueue:
    return JobQueue(installation)


def test_schedules_are_listed_paused_resumed_and_removed(queue: JobQueue) -> None:
    async def put(sessions: Sessions) -> None:
        async with sessions.tenant(queue.tenant) as conn:
            await schedules.put_schedule(conn, queue.tenant, Schedule(name="nightly", cron="30 2 * * *", type="report"))

    queue.run_async(put)

    table = queue.run_ok("schedules").out.split("\n")
    [paused] = queue.run_ok("schedules", "--pause", "nightly", "--json").json()
    [resumed] = queue.run_ok("schedules", "--resume", "nightly", "--json").json()

    assert table[0].split() == ["NAME", "CRON", "TIME", "ZONE", "TYPE", "ABOUT", "LAST", "NEXT"]
    assert table[1].startswith("nightly  30 2 * * *  UTC        report")
    assert (paused["paused"], paused["next_at"]) == (True, None)
    assert (resumed["paused"], resumed["name"], resumed["catch_up"]) == (False, "nightly", "one")
    assert resumed["next_at"].endswith("T02:30:00.000000Z")
    assert queue.run("schedules", "--pause", "daily").err.startswith("NOT_FOUND: there is no schedule `daily`")
    for two in (("--pause", "a", "--resume", "b"), ("--pause", "a", "--remove", "a")):
        assert queue.run("schedules", *two).code == 2
    assert queue.run_ok("schedules", "--remove", "nightly", "--json").json() == []
    assert queue.run("schedules", "--remove", "nightly").err.startswith("NOT_FOUND: there is no schedule `nightly`")


def test_a_schedule_is_created_and_changed_on_record(queue: JobQueue) -> None:
    audits = ("schedule", "more", "--type", "REPLAY_AUDIT", "--cron", "0 4 * * *")
    created = queue.run_ok(*audits, "--input", '{"sample": 5}').out
    changed = queue.run_ok("schedule", "more", "--cron", "30 5 * * 1", "--time-zone", "Europe/Berlin", "--json").json()
    [paused] = queue.run_ok("schedules", "--pause", "more", "--json").json()
    [listed] = queue.run_ok("schedules", "--json").json()

    assert created.startswith("created schedule more: REPLAY_AUDIT at `0 4 * * *` (UTC), next at ")
    assert (changed["cron"], changed["time_zone"], changed["type"]) == ("30 5 * * 1", "Europe/Berlin", "REPLAY_AUDIT")
    assert listed == paused
    assert "intact" in queue.chains()
    for wrong, says in [
        (("schedule", "x", "--cron", "0 4 * * *"), "VALIDATION_ERROR: a new schedule needs a type"),
        (("schedule", "x", "--type", "SIGN_PASSPORT", "--cron", "0 4 * * *"), "VALIDATION_ERROR: jobs of type"),
        (("schedule", "x", "--type", "REPLAY_AUDIT", "--input", "{}"), "VALIDATION_ERROR: a new schedule needs a cron"),
        ((*audits, "--input", "sample"), "VALIDATION_ERROR: the input is not JSON"),
        (("schedule", "more", "--type", "INGEST_DOCUMENT"), "VALIDATION_ERROR: schedule `more` submits REPLAY_AUDIT"),
        (("schedule", "more", "--cron", "never"), "VALIDATION_ERROR: `never` is not a valid cron expression"),
    ]:
        assert queue.run(*wrong).err.startswith(says), wrong
