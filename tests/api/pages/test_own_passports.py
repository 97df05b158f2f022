"""The page of a battery that has a passport of its own: model, batch and battery as one, checked as one."""

import json
import re
from html import unescape

import httpx2
import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.items.view import merge_view
from bpc.core.verify.item_view import verify_item_view
from bpc.runtime import clock
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.item_fixtures import CSV, find_battery, issue_items, issue_model
from tests.pipeline.compile_fixtures import SIGNER

SHOWN = re.compile(r'data-path="([^"]*)" data-signed="([^"]*)"')


@pytest.fixture
async def battery(admin: Api, officer: Api, service: Service, database: Database, tenant: TenantId, act: Act) -> str:
    """A battery with a passport below its model and its batch."""
    await issue_model(admin, service, database, tenant, act)
    await issue_items(officer, service)
    return await find_battery(officer, "A1")


async def test_a_battery_with_a_passport_of_its_own_shows_it_and_every_shown_value_is_in_its_view(
    admin: Api, battery: str
) -> None:
    visitor: httpx2.AsyncClient = admin.http
    answer = await visitor.get(f"/p/{battery}", headers={"Accept": "application/json"})
    html = (await visitor.get(f"/p/{battery}")).text

    merged = merge_view(answer.content)
    assert verify_item_view(answer.content, pins=[SIGNER.public_key]).ok
    shown = {path: json.loads(unescape(text)) for path, text in SHOWN.findall(html)}
    assert shown.items() <= merged.fields.items()
    assert {merged.layers[path] for path in shown} == {"model", "item"}
    assert "Serial number A1" in html
    assert "This battery has a passport of its own" in html
    version = merged.versions["item"]
    stored = await visitor.get(f"/p/{battery}/v/{version}/view.json")
    assert (stored.content, stored.headers["cache-control"]) == (answer.content, "public, max-age=31536000, immutable")
    assert f"/p/{battery}/v/{version}/view.json" in html
    assert (await visitor.get(f"/p/{battery}/v/{clock.new_id()}")).status_code == 404
    assert (await visitor.get(f"/p/{battery}/v/{version}/passport.jsonld")).status_code == 404


async def test_older_versions_of_a_battery_and_of_its_model_stay_at_their_addresses(
    admin: Api,
    officer: Api,
    service: Service,
    database: Database,
    tenant: TenantId,
    act: Act,
    battery: str,
) -> None:
    visitor, day = admin.http, clock.now().date().isoformat()
    passport = (await admin.get_json("/v1/passports"))["items"][0]["passport_id"]
    first = (await admin.get_json(f"/v1/batteries/{battery}/passport-versions"))["items"][0]["passport_version_id"]
    later_model = await issue_model(admin, service, database, tenant, act, mass="900")

    kept = (await visitor.get(f"/p/{battery}")).text
    await issue_items(officer, service, CSV, reissue="true")
    newest = (await admin.get_json(f"/v1/batteries/{battery}/passport-versions"))["items"][0]["passport_version_id"]

    assert "Its model has a newer one." in kept  # what the script says if the list of the model says so
    assert '"state":"superseded"' in kept
    older, now = (await visitor.get(f"/p/{battery}/v/{first}")).text, (await visitor.get(f"/p/{battery}")).text
    assert ('"state":"superseded"' in older, '"state":"in_force"' in now) == (True, True)
    assert (first in now, newest in now) == (True, True)
    for address, version in ((battery, newest), (passport, later_model)):
        on_day = await visitor.get(f"/p/{address}", params={"at": day, "lang": "de"})
        assert on_day.status_code == 307
        assert on_day.headers["location"].endswith(f"/p/{address}/v/{version}?lang=de")
        assert (await visitor.get(f"/p/{address}", params={"at": "2020-01-01"})).status_code == 404
    page = (await visitor.get(f"/p/{passport}")).text
    assert "What changed since the version of" in page
    changed = re.findall(r'<tr><th scope="row">([^<]*)</th><td>([^<]*)</td><td>([^<]*)</td></tr>', page)
    assert [(before, after) for _, before, after in changed if "800" in before or "0.8" in before] != []
