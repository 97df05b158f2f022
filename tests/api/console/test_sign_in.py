"""Signing in: a link begins one session, nobody chooses its cookie, and every session ends."""

from datetime import timedelta

import httpx2
from fastapi import FastAPI

from bpc.api.console.session_cookie import COOKIE_NAME
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.console.conftest import Browser, create_person, write_link
from tests.storage.probes import Superuser

FOREIGN_ADDRESSES = (
    "https://evil.example/",
    "//evil.example",
    "/console/../v1",
    "/v1/docs",
    "/console//evil",
    "/console?x=<b>",
)


async def test_a_link_signs_in_once(app: FastAPI, database: Database, tenant: TenantId, act: Act) -> None:
    link = write_link(tenant, await create_person(database, tenant, "Auditor", act))
    first, second = Browser(app), Browser(app)

    answer = await first.sign_in(link)
    again = await second.sign_in(link)

    assert (answer.status_code, answer.headers["location"]) == (303, "/console")
    assert again.status_code == 401
    assert "used already" in again.text
    assert (await first.get("/console")).status_code == 200
    assert (await second.get("/console")).status_code == 303


async def test_a_link_that_is_old_or_forged_begins_no_session(
    app: FastAPI, database: Database, tenant: TenantId, act: Act
) -> None:
    person = await create_person(database, tenant, "Auditor", act)
    old = write_link(tenant, person, age=timedelta(minutes=11))
    forged = write_link(tenant, person)[:-3] + "AAA"
    browser = Browser(app)

    answers = [await browser.sign_in(link) for link in (old, forged, "")]

    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert browser.cookie == ""


async def test_the_cookie_is_out_of_reach_for_scripts_and_named_by_the_scheme(
    app: FastAPI, database: Database, tenant: TenantId, act: Act
) -> None:
    person = await create_person(database, tenant, "Auditor", act)
    plain, secure = Browser(app), Browser(app)
    secure.http.base_url = httpx2.URL("https://bpc.example")

    over_http = await plain.sign_in(write_link(tenant, person))
    over_https = await secure.send(
        "/console/sign-in", {"link": write_link(tenant, person)}, headers={"Origin": "https://bpc.example"}
    )

    assert over_http.headers["set-cookie"].startswith("bpc-dev-session-8080=")
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(over_http.headers["set-cookie"].split("; "))
    assert over_https.headers["set-cookie"].startswith(f"{COOKIE_NAME}=")
    assert {"HttpOnly", "Path=/", "SameSite=lax", "Secure"} <= set(over_https.headers["set-cookie"].split("; "))
    assert "Domain" not in over_https.headers["set-cookie"]


async def test_nobody_signs_in_over_plain_http_from_another_machine(app: FastAPI) -> None:
    browser = Browser(app)
    browser.http.base_url = httpx2.URL("http://192.0.2.7:8080")

    page = await browser.get("/console/sign-in")

    assert page.status_code == 403
    assert "https" in page.text


async def test_a_cookie_that_somebody_planted_is_not_adopted(
    app: FastAPI, database: Database, tenant: TenantId, act: Act
) -> None:
    """Session fixation: whoever knows the cookie before the sign-in knows nothing after it."""
    person = await create_person(database, tenant, "Auditor", act)
    attacker, victim = Browser(app), Browser(app)
    await attacker.sign_in(write_link(tenant, await create_person(database, tenant, "Admin", act)))
    planted = attacker.cookie
    victim.http.cookies.update(attacker.http.cookies)

    await victim.sign_in(write_link(tenant, person))

    assert planted not in victim.cookie
    assert (await attacker.get("/console")).status_code == 303  # it ended when its browser signed in anew


async def test_a_session_ends_unused_and_in_any_case(browsers: dict[str, Browser], superuser: Superuser) -> None:
    idle, old, used = browsers["Auditor"], browsers["ComplianceOfficer"], browsers["Admin"]

    await _age(superuser, "Auditor", "last_used_at = now() - interval '61 minutes'")
    await _age(superuser, "ComplianceOfficer", "expires_at = now() - interval '1 second'")

    assert (await idle.get("/console")).headers["location"] == "/console/sign-in"
    assert (await old.get("/console/sessions")).headers["location"] == "/console/sign-in?next=/console/sessions"
    assert (await used.get("/console")).status_code == 200


async def test_signing_out_and_ending_all_sessions_end_them_everywhere(
    app: FastAPI, database: Database, tenant: TenantId, act: Act
) -> None:
    person = await create_person(database, tenant, "Auditor", act)
    desk, phone, lost = Browser(app), Browser(app), Browser(app)
    for browser in (desk, phone, lost):
        await browser.sign_in(write_link(tenant, person))

    await lost.send("/console/sign-out")
    listed = await desk.show("/console/sessions")
    await desk.send("/console/sessions/end-all")

    assert listed.count('/end"') == 2
    assert [(await each.get("/console")).status_code for each in (desk, phone, lost)] == [303, 303, 303]


async def test_a_deactivated_actor_is_out_at_once(
    browsers: dict[str, Browser], database: Database, tenant: TenantId, admin: Api, act: Act
) -> None:
    actors = (await admin.get_json("/v1/actors"))["items"]
    person = next(actor for actor in actors if actor["display_name"] == "Auditor <i>")

    changed = await admin.send("PATCH", f"/v1/actors/{person['actor_id']}", {"is_active": False})

    assert changed.status_code == 200

    assert (await browsers["Auditor"].get("/console/products")).status_code == 303


async def test_signing_in_leads_to_the_console_and_nowhere_else(
    app: FastAPI, database: Database, tenant: TenantId, act: Act
) -> None:
    browser, person = Browser(app), await create_person(database, tenant, "Auditor", act)
    goals = {}

    for address in ("/console/products?q=x", *FOREIGN_ADDRESSES):
        link = write_link(tenant, person)
        answer = await browser.send("/console/sign-in", {"link": link}, params={"next": address})
        goals[address] = answer.headers["location"]

    assert goals == {"/console/products?q=x": "/console/products?q=x", **dict.fromkeys(FOREIGN_ADDRESSES, "/console")}


async def _age(superuser: Superuser, role: str, change: str) -> None:
    await superuser.execute(
        f"UPDATE console_sessions SET {change} WHERE actor_id ="
        f" (SELECT actor_id FROM actors WHERE display_name = '{role} <i>')"
    )
