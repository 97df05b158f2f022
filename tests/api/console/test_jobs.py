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
    listed = await admin_browser.show("/console/jobs?status=DEAD_LETTER&type=PARSE_FACTS")
    job = await admin_browser.show(f"/console/jobs/{failed_job}")
    answer = await admin_browser.send(f"/console/jobs/{failed_job}/retry")
    after = await admin_browser.show(answer.headers["location"])

    assert str(failed_job) in listed
    assert waiting_job not in listed
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
