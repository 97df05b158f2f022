"""Signing in with a provider: groups become roles, and no answer that is not the right one signs anybody in."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from joserfc.jwk import OctKey

from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.openid.providers import TenantGroups
from bpc.storage.database import Database
from tests.api.console.conftest import Browser, create_person, write_link
from tests.api.console.hostile_provider import BACK, HostileProvider, SignIn, make_client, make_key
from tests.storage.probes import Superuser


@pytest.fixture
def sign_in(service: Service, tenant: TenantId) -> SignIn:
    return SignIn(service, HostileProvider())


async def test_somebody_of_a_group_has_its_roles(sign_in: SignIn, database: Database, tenant: TenantId) -> None:
    browser = sign_in.open_browser()

    answer = await sign_in.sign_in(browser, "/console/products")

    assert answer.headers["location"] == "/console/products"
    assert "Ada &lt;b&gt;Officer" in await browser.show("/console")
    assert (await browser.get("/console/gaps")).status_code == 200
    assert (await browser.get("/console/administration")).status_code == 403
    async with database.tenant(tenant) as conn:
        assert [row["email"] for row in await conn.fetch("SELECT email FROM actors")] == [None]


async def test_the_same_person_is_the_same_actor_whatever_their_mail_and_name(
    sign_in: SignIn, database: Database, tenant: TenantId
) -> None:
    await sign_in.sign_in(sign_in.open_browser())
    sign_in.provider.claims = {"email": "other@example.com", "name": "Ada Other"}
    await sign_in.sign_in(sign_in.open_browser())
    sign_in.provider.subject = "person-2"
    sign_in.provider.claims = {}  # the mail of the first person, given to a second one
    await sign_in.sign_in(sign_in.open_browser())

    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM actors WHERE type = 'USER'") == 2


async def test_groups_give_no_administration_unless_that_was_said(service: Service, tenant: TenantId) -> None:
    provider = HostileProvider(groups=["admins", "auditors"])
    said = (TenantGroups(slug="acme", groups={"admins": ["Admin"]}, administration=True),)
    withheld, trusted = SignIn(service, provider), SignIn(service, provider, tenants=said)
    first, second = withheld.open_browser(), trusted.open_browser()

    await withheld.sign_in(first)
    assert (await first.get("/console/administration")).status_code == 403
    assert (await first.get("/console/audit")).status_code == 200
    await trusted.sign_in(second)

    assert (await second.get("/console/administration")).status_code == 200


async def test_nobody_without_a_group_or_of_another_tenant_gets_in(
    sign_in: SignIn, other_tenant: TenantId, database: Database, tenant: TenantId
) -> None:
    browser = sign_in.open_browser()
    sign_in.provider.groups = ["strangers"]

    answer = await sign_in.sign_in(browser)

    assert answer.status_code == 401
    assert "none of your groups" in answer.text
    assert "session" not in browser.cookie
    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM actors") == 0
    sign_in.provider.groups = ["officers"]
    elsewhere = await sign_in.go(browser, "/console/sign-in/with/company?tenant=rival")
    assert (await sign_in.come_back(browser, **sign_in.provider.authorize(elsewhere))).status_code == 401


async def test_who_belongs_to_two_tenants_chooses_one(
    service: Service, tenant: TenantId, other_tenant: TenantId
) -> None:
    bindings = [TenantGroups(slug=slug, groups={"officers": ["Auditor"]}) for slug in ("acme", "rival")]
    both = SignIn(service, HostileProvider(), tenants=bindings)
    browser = both.open_browser()

    choice = await both.sign_in(browser, "/console/passports")

    assert "tenant=acme" in choice.text
    assert "session" not in browser.cookie
    address = await both.go(browser, "/console/sign-in/with/company?next=%2Fconsole%2Fpassports&tenant=rival")
    answer = await both.come_back(browser, **both.provider.authorize(address))
    assert answer.headers["location"] == "/console/passports"
    assert "Rival" in await browser.show("/console")


async def test_an_answer_signs_in_only_the_browser_that_asked_and_only_once(sign_in: SignIn) -> None:
    """Login CSRF, a stolen code and a code that is sent again."""
    attacker, victim = sign_in.open_browser(), sign_in.open_browser()
    stolen = sign_in.provider.authorize(await sign_in.go(attacker))

    without_cookie = await sign_in.come_back(victim, **stolen)
    await sign_in.go(victim)
    with_own_cookie = await sign_in.come_back(victim, **stolen)
    before = httpx2.Cookies(attacker.http.cookies)
    right = await sign_in.come_back(attacker, **stolen)
    attacker.http.cookies.update(before)  # the cookie of the attempt again, which the answer removed
    again = await sign_in.come_back(attacker, **stolen)

    assert [without_cookie.status_code, with_own_cookie.status_code] == [401, 401]
    assert "session" not in victim.cookie
    assert right.status_code == 303
    assert again.status_code == 401


async def test_one_answer_begins_one_session_even_if_the_provider_takes_its_code_twice(sign_in: SignIn) -> None:
    browser, copy = sign_in.open_browser(), sign_in.open_browser()
    answer = sign_in.provider.authorize(await sign_in.go(browser))
    copy.http.cookies.update(browser.http.cookies)
    kept = dict(sign_in.provider.codes)

    first = await sign_in.come_back(browser, **answer)
    sign_in.provider.codes.update(kept)
    second = await sign_in.come_back(copy, **answer)

    assert (first.status_code, second.status_code) == (303, 401)
    assert "used already" in second.text


async def test_an_answer_of_another_provider_is_refused(service: Service, tenant: TenantId) -> None:
    """Mix-up: the code of an honest provider, brought to the address of another, and the other way round."""
    honest, evil = HostileProvider(), HostileProvider(issuer="https://evil.example")
    clients = {"company": make_client(honest, "acme"), "evil": make_client(evil, "acme", name="evil")}
    app = create_app(replace(service, providers=clients))
    browser = Browser(app)
    address = (await browser.get("/console/sign-in/with/evil")).headers["location"]
    state = evil.authorize(address)["state"]
    code = honest.authorize(address)["code"]

    crossed = await browser.get(BACK, params={"code": code, "state": state})
    own = await browser.get("/console/sign-in/back/evil", params={"code": code, "state": state, "iss": honest.issuer})

    assert (crossed.status_code, own.status_code) == (401, 401)
    assert "/token" not in honest.requests
    assert "/token" not in evil.requests


async def test_a_provider_that_promises_to_name_itself_must(sign_in: SignIn) -> None:
    sign_in.provider.metadata = {"authorization_response_iss_parameter_supported": True}
    browser = sign_in.open_browser()
    answer = sign_in.provider.authorize(await sign_in.go(browser))

    silent = await sign_in.come_back(browser, **answer)
    await sign_in.go(browser)
    named = sign_in.provider.authorize(await sign_in.go(browser))

    assert silent.status_code == 401
    assert (await sign_in.come_back(browser, iss=sign_in.provider.issuer, **named)).status_code == 303


FORGERIES: dict[str, Callable[[HostileProvider], None]] = {
    "another nonce": lambda provider: provider.claims.update(nonce="other"),
    "another audience": lambda provider: provider.claims.update(aud="other"),
    "another issuer": lambda provider: provider.claims.update(iss="https://evil.example"),
    "expired": lambda provider: provider.claims.update(exp=1_700_000_000),
    "changed": lambda provider: setattr(provider, "forge", lambda token: token[:-8] + "AAAAAAAA"),
    "unsigned": lambda provider: setattr(
        provider, "forge", lambda token: "eyJhbGciOiJub25lIn0." + token.split(".")[1] + "."
    ),
    "none": lambda provider: setattr(provider, "forge", lambda _: ""),
    "an unpublished key": lambda provider: setattr(provider, "published", [make_key("other")]),
    "another issuer in its description": lambda provider: provider.metadata.update(issuer="https://evil.example"),
    "a secret among its keys": lambda provider: setattr(provider, "published", [OctKey.generate_key(256)]),
}


@pytest.mark.parametrize("falsify", FORGERIES.values(), ids=FORGERIES)
@pytest.mark.every_case
async def test_a_false_token_signs_nobody_in(service: Service, tenant: TenantId, falsify: Any) -> None:
    sign_in = SignIn(service, HostileProvider())
    browser = sign_in.open_browser()
    falsify(sign_in.provider)

    began = await browser.get("/console/sign-in/with/company")
    answer = began
    if began.status_code == 303:
        answer = await sign_in.come_back(browser, **sign_in.provider.authorize(began.headers["location"]))

    assert answer.status_code in {401, 502, 503}, answer.text
    assert "session" not in browser.cookie


async def test_the_second_factor_that_is_configured_is_required(service: Service, tenant: TenantId) -> None:
    strict = SignIn(service, HostileProvider(), required_amr=["otp"], required_acr=["high"])
    browser = strict.open_browser()

    address = await strict.go(browser)
    refused = await strict.come_back(browser, **strict.provider.authorize(address))
    strict.provider.claims = {"amr": ["pwd", "otp"], "acr": "high"}
    accepted = await strict.sign_in(browser)

    assert "acr_values=high" in address
    assert (refused.status_code, accepted.status_code) == (401, 303)


async def test_signing_in_leads_nowhere_else(sign_in: SignIn) -> None:
    for address in ("https://evil.example/", "//evil.example", "/console/../v1", "/v1/docs"):
        answer = await sign_in.sign_in(sign_in.open_browser(), address)
        assert answer.headers["location"] == "/console"


async def test_a_planted_session_is_ended_and_never_adopted(
    sign_in: SignIn, database: Database, tenant: TenantId, act: Act
) -> None:
    attacker, victim = sign_in.open_browser(), sign_in.open_browser()
    await attacker.sign_in(write_link(tenant, await create_person(database, tenant, "Admin", act)))
    planted = attacker.cookie
    victim.http.cookies.update(attacker.http.cookies)

    await sign_in.sign_in(victim)

    assert planted not in victim.cookie
    assert (await attacker.get("/console")).status_code == 303


async def test_the_api_never_takes_the_cookie(sign_in: SignIn) -> None:
    browser = sign_in.open_browser()
    await sign_in.sign_in(browser)

    assert (await browser.get("/v1/battery-products")).status_code == 401


async def test_new_keys_of_a_provider_are_read_when_a_token_names_one(sign_in: SignIn, superuser: Superuser) -> None:
    await sign_in.sign_in(sign_in.open_browser())
    client = sign_in.app.state.service.providers["company"]
    sign_in.provider.key = make_key("two")
    too_soon = await sign_in.sign_in(sign_in.open_browser())
    requests_for_keys = sign_in.provider.requests.count("/keys")

    client._metadata = replace(client._metadata, read_at=client._metadata.read_at.replace(year=2020))
    rotated = await sign_in.sign_in(sign_in.open_browser())

    assert (too_soon.status_code, requests_for_keys) == (401, 1)  # nobody makes us ask all day
    assert rotated.status_code == 303
