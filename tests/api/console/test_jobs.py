"""Jobs in the console: a failed job is found by a filter, understood, and tried again; one that waits is cancelled."""

import re
from uuid import UUID

import pytest

from bpc.core.formats.ids import TenantId
from tests.api.conftest import Api
from tests.api.console.conftest import Browser
from tests.api.evidence_fixtures import BOM, upload_document
from tests.storage.probes import Superuser

INSERT_FAILED = """
    INSERT INTO jobs.job (tenant_id, job_id, type, status, attempts, max_attempts, payload, last_error, created_at,
                          scheduled_at, started_at, finished_at, failed_at, keep_seconds)
    SELECT $1, $2, 'PARSE_FACTS', 'DEAD_LETTER', 5, 5, j.payload,
           '{"code": "SERVICE_DOWN", "message": "no answer <b>from it", "retryable": true, "fix": "wait a little"}',
           now() - interval '3 hours', now(), now() - interval '90 seconds', now(), now(), 1000000
      FROM jobs.job j WHERE j.tenant_id = $1 LIMIT 1
"""

INSERT_LEASE = """
    INSERT INTO jobs.job_lease (tenant_id, job_id, type, owner, attempt, priority, limit_key, started_at, lease_until)
    SELECT tenant_id, job_id, type, 'worker-7', 1, priority, limit_key, now(), now() + interval '1 minute'
      FROM jobs.job WHERE tenant_id = $1 AND job_id = $2
"""


@pytest.fixture
async def waiting_job(admin: Api) -> str:
    """It reads a document."""
    await upload_document(admin, BOM)
    [job] = (await admin.get_json("/v1/jobs"))["items"]
    return str(job["job_id"])


@pytest.fixture
async def failed_job(superuser: Superuser, tenant: TenantId, waiting_job: str) -> UUID:
    """Its five attempts were in vain."""
    job = UUID(int=UUID(waiting_job).int + 1)  # ids say the time, and lists go by it
    await superuser.execute(INSERT_FAILED, tenant, job)
    return job


async def test_a_failed_job_is_found_understood_and_tried_again(
    admin_browser: Browser, admin: Api, failed_job: UUID, waiting_job: str
) -> None:
    job_list = await admin_browser.show("/console/jobs?status=DEAD_LETTER&type=PARSE_FACTS")
    job = await admin_browser.show(f"/console/jobs/{failed_job}")
    answer = await admin_browser.send(f"/console/jobs/{failed_job}/retry")
    after = await admin_browser.show(answer.headers["location"])

    assert str(failed_job) in job_list
    assert waiting_job not in job_list
    assert "no answer &lt;b&gt;from it" in job
    assert "wait a little" in job
    assert "<strong>3 h</strong>" in job
    assert "<strong>1.5 min</strong>" in job
    assert f"bpc jobs show {failed_job} --tenant" in job
    assert "The job runs again." in after
    assert "JOB_RETRIED" in after
    assert (await admin.get_json(f"/v1/jobs/{failed_job}"))["status"] == "QUEUED"


async def test_a_job_that_waits_is_cancelled_with_a_reason(
    admin_browser: Browser, admin: Api, waiting_job: str
) -> None:
    before = await admin_browser.show(f"/console/jobs/{waiting_job}")
    await admin_browser.send(f"/console/jobs/{waiting_job}/cancel", {"reason": "sent twice"})
    after = await admin_browser.show(f"/console/jobs/{waiting_job}")

    assert "sent twice" in after
    assert (await admin.get_json(f"/v1/jobs/{waiting_job}"))["status"] == "CANCELLED"
    assert re.search(r'hx-get="[^"]*/state"', before)  # it is looked at again while it may change, and no longer
    assert not re.search(r'hx-get="[^"]*/state"', after)


async def test_who_may_not_decide_about_jobs_is_offered_nothing(browsers: dict[str, Browser], failed_job: UUID) -> None:
    page = await browsers["ComplianceOfficer"].show(f"/console/jobs/{failed_job}")
    answer = await browsers["ComplianceOfficer"].send(f"/console/jobs/{failed_job}/retry")

    assert "/retry" not in page
    assert answer.status_code == 403


async def test_a_filter_that_is_none_is_refused_in_words(admin_browser: Browser) -> None:
    answer = await admin_browser.get("/console/jobs?status=SLEEPING")

    assert answer.status_code == 422
    assert "status" in answer.text


async def test_chosen_jobs_are_tried_again_together_and_refusals_are_named(
    admin_browser: Browser, admin: Api, failed_job: UUID, waiting_job: str
) -> None:
    await admin_browser.show("/console/jobs")
    form = {f"job.{failed_job}": "1", f"job.{waiting_job}": "1", "action": "retry"}
    answer = await admin_browser.send("/console/jobs/chosen", form)

    assert "1 of 2 jobs run again." in answer.text
    assert ">refused<" in answer.text
    assert (await admin.get_json(f"/v1/jobs/{failed_job}"))["status"] == "QUEUED"


async def test_chosen_jobs_are_cancelled_together(admin_browser: Browser, admin: Api, waiting_job: str) -> None:
    await admin_browser.show("/console/jobs")
    answer = await admin_browser.send("/console/jobs/chosen", {f"job.{waiting_job}": "1", "action": "cancel"})
    nothing = await admin_browser.send("/console/jobs/chosen", {"action": "cancel"})

    assert "1 of 1 jobs are cancelled." in answer.text
    assert (await admin.get_json(f"/v1/jobs/{waiting_job}"))["status"] == "CANCELLED"
    assert nothing.status_code == 422


async def test_only_who_may_decide_is_offered_to_choose(browsers: dict[str, Browser], failed_job: UUID) -> None:
    officer = browsers["ComplianceOfficer"]
    page = await officer.show("/console/jobs")
    answer = await officer.send("/console/jobs/chosen", {f"job.{failed_job}": "1", "action": "retry"})

    assert 'type="checkbox"' not in page
    assert "0 of 1 jobs run again." in answer.text


async def test_figures_by_the_hour_are_those_of_the_jobs(admin_browser: Browser, admin: Api, failed_job: UUID) -> None:
    page = await admin_browser.show("/console/jobs/statistics")
    [hour] = (await admin.get_json("/v1/job-statistics"))["hours"]

    assert (hour["succeeded"], hour["failed"]) == (0, 1)
    assert hour["run_seconds_p50"] == pytest.approx(90)
    assert hour["wait_seconds_p95"] == pytest.approx(3 * 3600 - 90)
    assert ">90 s<" in page
    assert "chart-bad" in page


async def test_what_waits_for_what_is_drawn(
    admin_browser: Browser, superuser: Superuser, tenant: TenantId, failed_job: UUID, waiting_job: str
) -> None:
    await superuser.execute(
        "INSERT INTO jobs.job_dependency (tenant_id, job_id, needs_id, met) VALUES ($1, $2, $3, true)",
        tenant,
        UUID(waiting_job),
        failed_job,
    )
    first = await admin_browser.show(f"/console/jobs/{failed_job}")
    then = await admin_browser.show(f"/console/jobs/{waiting_job}")

    assert f'<h3>Then</h3><ul class="plain-list"><li><a href="/console/jobs/{waiting_job}">' in first
    assert f'<h3>First</h3><ul class="plain-list"><li><a href="/console/jobs/{failed_job}">' in then


async def test_schedules_are_paused_resumed_and_deleted(admin_browser: Browser, admin: Api) -> None:
    schedule = await admin.post_json(
        "/v1/schedules", {"name": "nightly <b>", "type": "REPLAY_AUDIT", "cron": "0 3 * * *", "input": {"sample": 5}}
    )
    path = f"/console/jobs/schedules/{schedule['schedule_id']}"
    page = await admin_browser.show("/console/jobs/schedules")
    await admin_browser.send(f"{path}/pause")
    paused_page = await admin_browser.show("/console/jobs/schedules?done=paused")
    await admin_browser.send(f"{path}/resume")
    await admin_browser.send(f"{path}/delete")

    assert "nightly &lt;b&gt;" in page
    assert "The schedule is paused" in paused_page
    assert f"{path}/resume" in paused_page
    assert (await admin.get_json("/v1/schedules"))["items"] == []


async def test_workers_are_named_with_what_they_hold(
    admin_browser: Browser, superuser: Superuser, tenant: TenantId, waiting_job: str
) -> None:
    empty = await admin_browser.show("/console/jobs/workers")
    await superuser.execute(INSERT_LEASE, tenant, UUID(waiting_job))
    page = await admin_browser.show("/console/jobs/workers")

    assert "Nothing runs" in empty
    assert "worker-7" in page
    assert waiting_job in page
