"""Approvals in the console: a request waits for a second person, who confirms or declines it."""

import pytest

from tests.api.conftest import Api
from tests.api.console.conftest import Browser


@pytest.fixture
async def owner(admin: Api) -> str:
    """An actor who gets a key. From now on that needs two people."""
    actor = await admin.post_json("/v1/actors", {"type": "API_CLIENT", "display_name": "Line 4", "roles": ["Auditor"]})
    switched = await admin.send("PUT", "/v1/tenant/four-eyes", {"actions": ["key_changes"]})
    assert switched.status_code == 200, switched.text
    return str(actor["actor_id"])


async def ask_for_key(api: Api, owner: str) -> str:
    return str((await api.post_json("/v1/api-keys", {"actor_id": owner}, status=202))["approval_id"])


async def test_a_second_person_confirms_and_sees_what_came_of_it(
    admin_browser: Browser, admin: Api, owner: str
) -> None:
    approval = await ask_for_key(admin, owner)

    listed = await admin_browser.show("/console/approvals")
    page = await admin_browser.show(f"/console/approvals/{approval}")
    done = await admin_browser.send(f"/console/approvals/{approval}/approve")
    after = await admin_browser.show(f"/console/approvals/{approval}")

    assert approval in listed
    assert "Change keys" in listed
    assert f"bpc approvals approve {approval}" in page
    assert done.status_code == 200
    assert "bpc_" in done.text  # the key is shown this once
    assert "bpc_" not in after
    assert "/approve" not in after
    assert len((await admin.get_json("/v1/api-keys"))["items"]) == 4


async def test_a_second_person_declines_with_a_reason(admin_browser: Browser, admin: Api, owner: str) -> None:
    approval = await ask_for_key(admin, owner)

    await admin_browser.show(f"/console/approvals/{approval}")
    answer = await admin_browser.send(f"/console/approvals/{approval}/decline", {"reason": "not needed"})
    after = await admin_browser.show(answer.headers["location"])

    assert "It is never done." in after
    assert (await admin.get_json(f"/v1/approvals/{approval}"))["status"] == "REJECTED"


async def test_an_officer_who_lacks_the_permission_is_told_so(
    browsers: dict[str, Browser], admin: Api, owner: str
) -> None:
    approval = await ask_for_key(admin, owner)

    page = await browsers["ComplianceOfficer"].show(f"/console/approvals/{approval}")
    answer = await browsers["ComplianceOfficer"].send(f"/console/approvals/{approval}/approve")

    assert "needs another permission" in page
    assert "/approve" not in page
    assert answer.status_code == 403


async def test_an_empty_page_says_how_requests_get_there(admin_browser: Browser) -> None:
    page = await admin_browser.show("/console/approvals")

    assert "No action needs two people" in page
    assert "bpc approvals four-eyes" in page
