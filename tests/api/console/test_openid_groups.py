"""Groups are read again: whoever leaves one at the provider has lost its roles here five minutes later."""

from urllib.parse import urlsplit

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.access import tenants_and_actors
from bpc.storage.database import Database
from tests.api.console.conftest import ADDRESS, create_person
from tests.api.console.hostile_provider import HostileProvider, SignIn
from tests.storage.probes import Superuser


@pytest.fixture
def sign_in(service: Service, tenant: TenantId) -> SignIn:
    return SignIn(service, HostileProvider())


async def age_reading(superuser: Superuser, minutes: float) -> None:
    await superuser.execute(f"UPDATE console_sessions SET roles_read_at = now() - interval '{minutes} minutes'")


async def test_who_leaves_a_group_loses_its_roles_within_five_minutes(sign_in: SignIn, superuser: Superuser) -> None:
    browser = sign_in.open_browser()
    await sign_in.sign_in(browser)
    sign_in.provider.groups = ["auditors"]

    assert (await browser.get("/console/gaps")).status_code == 200
    await age_reading(superuser, 4.5)
    changed = await browser.get("/console/gaps")
    sign_in.provider.groups = []
    await age_reading(superuser, 4.5)
    gone = await browser.get("/console")

    assert changed.status_code == 403
    assert (gone.status_code, gone.headers["location"]) == (303, "/console/sign-in")
    assert (await browser.get("/console")).status_code == 303


async def test_without_a_refresh_token_the_browser_asks_by_itself(
    service: Service, tenant: TenantId, superuser: Superuser
) -> None:
    sign_in = SignIn(service, HostileProvider(gives_refresh_token=False))
    browser = sign_in.open_browser()
    await sign_in.sign_in(browser)
    before = browser.cookie
    await age_reading(superuser, 6)

    redirect = await browser.get("/console/products", params={"q": "x"})
    part = await browser.get("/console/search", headers={"HX-Request": "true", "Referer": f"{ADDRESS}/console/jobs"})
    form = await browser.send("/console/sign-out", headers={"Referer": "https://evil.example/console/jobs"})
    address = await sign_in.go(browser, redirect.headers["location"])
    back = await sign_in.come_back(browser, **sign_in.provider.authorize(address))

    assert redirect.headers["location"] == "/console/sign-in/again?next=/console/products%3Fq%3Dx"
    assert part.headers["hx-redirect"] == "/console/sign-in/again?next=/console/jobs"
    assert form.status_code == 303
    assert "prompt=none" in address
    assert back.headers["location"] == "/console/products?q=x"
    assert browser.cookie == before  # the same session goes on
    assert (await browser.get("/console/products")).status_code == 200


async def test_who_is_no_longer_signed_in_at_the_provider_is_signed_out_here(
    service: Service, tenant: TenantId, superuser: Superuser
) -> None:
    sign_in = SignIn(service, HostileProvider(gives_refresh_token=False))
    browser = sign_in.open_browser()
    await sign_in.sign_in(browser)
    await age_reading(superuser, 6)
    address = await sign_in.go(browser, (await browser.get("/console/jobs")).headers["location"])

    state = sign_in.provider.authorize(address)["state"]
    answer = await sign_in.come_back(browser, error="login_required", state=state)

    assert answer.headers["location"] == "/console/sign-in?next=/console/jobs"
    assert "again" not in (await browser.get("/console")).headers["location"]


async def test_another_person_at_the_provider_ends_the_session(
    service: Service, tenant: TenantId, superuser: Superuser
) -> None:
    sign_in = SignIn(service, HostileProvider(gives_refresh_token=False))
    browser = sign_in.open_browser()
    await sign_in.sign_in(browser)
    await age_reading(superuser, 6)
    sign_in.provider.subject = "somebody else"
    address = await sign_in.go(browser, "/console/sign-in/again")

    await sign_in.come_back(browser, **sign_in.provider.authorize(address))

    assert (await browser.get("/console")).headers["location"] == "/console/sign-in"


async def test_a_provider_that_is_down_keeps_nobody_in_longer_than_five_minutes(
    sign_in: SignIn, superuser: Superuser
) -> None:
    browser = sign_in.open_browser()
    await sign_in.sign_in(browser)
    sign_in.provider.is_down = True

    await age_reading(superuser, 4.5)
    soon = await browser.get("/console")
    await age_reading(superuser, 5.5)
    late = await browser.get("/console")
    sign_in.provider.is_down = False
    after = await browser.get("/console")

    assert (soon.status_code, after.status_code) == (200, 200)
    assert late.status_code in {502, 503}, late.text


async def test_signing_out_signs_out_of_the_provider_too(sign_in: SignIn) -> None:
    sign_in.provider.metadata = {"end_session_endpoint": "https://login.example/logout"}
    browser = sign_in.open_browser()
    await sign_in.sign_in(browser)

    answer = await browser.send("/console/sign-out")

    target = urlsplit(answer.headers["refresh"].partition("url=")[2])
    assert f"{target.scheme}://{target.netloc}{target.path}" == "https://login.example/logout"
    assert "id_token_hint=" in target.query
    assert "post_logout_redirect_uri=http%3A%2F%2F127.0.0.1%3A8080%2Fconsole%2Fsign-in" in target.query
    assert (await browser.get("/console")).status_code == 303


async def test_a_deactivated_person_does_not_come_back_by_the_provider(
    sign_in: SignIn, database: Database, tenant: TenantId, act: Act
) -> None:
    browser = sign_in.open_browser()
    await sign_in.sign_in(browser)
    async with database.tenant(tenant) as conn:
        actor = await conn.fetchval("SELECT actor_id FROM actors WHERE type = 'USER'")
    other = await create_person(database, tenant, "Admin", act)
    async with database.tenant(tenant) as conn:
        await tenants_and_actors.change_actor(conn, tenant, actor, {"is_active": False}, act=Act(other, act.at))

    again = await sign_in.sign_in(sign_in.open_browser())

    assert again.status_code in {401, 404}
