"""The console in Chromium: a link signs in, pages are for everybody, and no text becomes code."""

from pathlib import Path
from typing import Any, Final

import pytest

from bpc.api.http.request_context import Service
from bpc.api.http.server import listen
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.console.conftest import create_person, write_link
from tests.console_browsing import browse
from tests.measurements import choose_effort

pytestmark = pytest.mark.slow

ALL_PAGES: Final = (
    "/console",
    "/console/products",
    "/console/gaps",
    "/console/evidence",
    "/console/conflicts",
    "/console/passports",
    "/console/rules",
    "/console/batteries",
    "/console/runs",
    "/console/jobs",
    "/console/jobs/statistics",
    "/console/jobs/schedules",
    "/console/jobs/workers",
    "/console/approvals",
    "/console/audit",
    "/console/audit/trust",
    "/console/administration",
    "/console/administration/webhooks",
    "/console/sessions",
    "/console/search?q=SKU",
)
PAGES: Final = choose_effort(
    test=("/console", "/console/gaps", "/console/evidence", "/console/batteries", "/console/search?q=SKU"),
    shown=(*ALL_PAGES, "/console/nothing/here"),
    campaign=ALL_PAGES,
)
REFUSED: Final = "Failed to load resource: the server responded with a status of 4"  # there are no rules here
HOSTILE_TEXTS: Final = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' autofocus onfocus=alert(1) x='",
    "javascript:alert(1)",
    "</title><script>alert(1)</script>",
    "{{ 7 * 7 }}{% raw %}",
    "<a hx-get=/console/sign-out hx-trigger=load>",
    "\u202e%(name)s &lt;b&gt;",
)
COUNT: Final = choose_effort(test=len(HOSTILE_TEXTS), shown=1000, campaign=1000)


async def test_pages_are_for_everybody_and_no_text_becomes_code(
    service: Service,
    admin: Api,
    database: Database,
    tenant: TenantId,
    act: Act,
    tmp_path: Path,
) -> None:
    person = await create_person(database, tenant, "Admin", act)
    for number in range(COUNT):
        text = HOSTILE_TEXTS[number % len(HOSTILE_TEXTS)]
        await admin.post_json("/v1/battery-products", {"sku": f"SKU-{number}", "name": f"{text} {number}"})
        document = {"kind": "OTHER", "name": f"{text} {number}", "supplier": text, "external_ref": f"{number} {text}"}
        await admin.post_json("/v1/documents", document)

    async with listen(service, "127.0.0.1", 0) as port:
        address = f"http://127.0.0.1:{port}"
        links = [f"{address}/console/sign-in#{write_link(tenant, person)}" for _ in range(3)]
        sights = await browse(tmp_path, {"address": address, "sessions": _plan_sessions(links)})

    assert {sight["name"]: sight["violations"] for sight in sights if sight.get("violations")} == {}
    assert {sight["name"]: sight["overflow"] for sight in sights if sight["overflow"] > 0} == {}
    assert {sight["name"]: sight["foreign"] for sight in sights if sight["foreign"]} == {}
    complaints = [text for sight in sights for text in sight["complaints"] if not text.startswith(REFUSED)]
    assert complaints == []
    assert sights[-1]["url"] == f"{address}/console/products"  # found by keyboard alone


def _plan_sessions(links: list[str]) -> list[dict[str, Any]]:
    """Each page in light, in dark and German, and on a phone; and once through the palette by keyboard."""
    looks: list[dict[str, Any]] = [
        {"name": "desk"},
        {"name": "dark", "scheme": "dark", "locale": "de"},
        {"name": "phone", "width": 390, "height": 844},
    ]
    sessions = [
        look
        | {"link": link, "visits": [{"name": f"{look['name']} {path}", "path": path, "axe": True} for path in PAGES]}
        for look, link in zip(looks, links, strict=True)
    ]
    palette = [{"press": "Control+k"}, {"type": "Produ"}, {"wait": "#palette-results h2"}, {"press": "Enter"}]
    sessions[-1]["visits"].append(
        {"name": "palette", "path": "/console", "steps": [*palette, {"wait": "main form.filters"}]}
    )
    return sessions
