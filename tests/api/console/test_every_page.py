"""Every page, for every role of two tenants: it shows what the API answers to its actor, and nothing of others."""

import html
import re
from typing import TYPE_CHECKING, Final

import pytest

from bpc.api.console.families import list_console_routes
from bpc.api.console.page_routes import PageRoute
from bpc.api.console.rendering import CONTENT_SECURITY_POLICY
from bpc.core.audit.events import Act
from bpc.core.policies import ROLES
from bpc.runtime import clock
from tests.api.console.conftest import Browser, create_person, write_link
from tests.api.console.page_ids import NAMES, WITHOUT_DATA
from tests.api.tenant_data import FilledTenant

if TYPE_CHECKING:
    from tests.api.filled_tenants import TwoTenantApp

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.every_case]

PLACE: Final = re.compile(r"\{([a-z_]+)(?::[a-z]+)?\}")
CALL: Final = re.compile(r"<li><code>(GET) (/v1/[^<]*)</code>")
ROUTES: Final = [route for route in list_console_routes() if route.path not in WITHOUT_DATA]
SHOWN: Final = [route for route in ROUTES if route.kind == "show"]
FORMS: Final = [route for route in ROUTES if route.kind == "submit"]


def fill_path(route: PageRoute, tenant: FilledTenant) -> str:
    """The address of a page with ids of this tenant."""
    return PLACE.sub(lambda place: tenant.ids[NAMES.get(place[1], place[1])], route.path)


async def open_browser(app: "TwoTenantApp", tenant: FilledTenant, role: str) -> Browser:
    person = await create_person(app.database, tenant.tenant, role, Act(None, clock.now()))
    browser = Browser(app.app)
    await browser.sign_in(write_link(tenant.tenant, person))
    return browser


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_sees_what_its_permissions_show(two_tenants: "TwoTenantApp", role: str) -> None:
    """The menu and the answer agree, and each call that a page names is one that a key of the role may make."""
    browser = await open_browser(two_tenants, two_tenants.own, role)
    menu = re.findall(r'<a href="(/console[a-z/]*)"', await browser.show("/console"))

    for route in SHOWN:
        answer = await browser.get(fill_path(route, two_tenants.own))

        allowed = not route.permission or route.permission in ROLES[role]
        assert answer.status_code == (200 if allowed else 403), (route.path, answer.text[:2000])
        assert allowed or route.path not in menu, route.path
        for _, target in CALL.findall(answer.text) if allowed else ():
            called = await two_tenants.own.clients[role].get(html.unescape(target))
            assert called.status_code == 200, (route.path, target)


async def test_no_page_shows_anything_of_another_tenant(two_tenants: "TwoTenantApp") -> None:
    browser = await open_browser(two_tenants, two_tenants.own, "Admin")

    for route in SHOWN:
        own_page = await browser.get(fill_path(route, two_tenants.own))
        foreign_page = await browser.get(fill_path(route, two_tenants.foreign))

        assert two_tenants.foreign.mark not in own_page.text, route.path
        assert two_tenants.foreign.mark not in foreign_page.text, route.path
        if PLACE.search(route.path):
            assert foreign_page.status_code == 404, route.path


async def test_every_page_forbids_frames_foreign_scripts_and_caches(two_tenants: "TwoTenantApp") -> None:
    browser = await open_browser(two_tenants, two_tenants.own, "Admin")

    for route in SHOWN:
        answer = await browser.get(fill_path(route, two_tenants.own))

        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["cache-control"] == "no-store"
        assert "<script>" not in answer.text, route.path
        assert not re.search(r'\s(on[a-z]+|style)="', answer.text), route.path
    assert "frame-ancestors 'none'" in CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY


async def test_no_form_is_taken_from_elsewhere_or_without_a_session(two_tenants: "TwoTenantApp") -> None:
    browser = await open_browser(two_tenants, two_tenants.own, "Admin")
    stranger = Browser(two_tenants.app)
    evil = {"Origin": "https://evil.example"}

    for route in FORMS:
        path = fill_path(route, two_tenants.own) if "session_id" not in route.path else "/console/sessions/end-all"

        assert (await browser.send(path, headers=evil)).status_code == 403, route.path
        assert (await browser.send(path, {"form_token": ""})).status_code == 403, route.path
        assert (await stranger.send(path)).headers["location"] == "/console/sign-in", route.path
    assert (await browser.get("/console")).status_code == 200
