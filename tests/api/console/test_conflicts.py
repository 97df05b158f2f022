"""Conflicts in the console: both sides are shown with their sources, and a person decides which one counts."""

import re

import pytest

from tests.api.conftest import Api
from tests.api.console.conftest import Browser
from tests.api.routes.test_statements import create_document, footprint, upload

pytestmark = pytest.mark.usefixtures("worker")

PIECE = "/console/conflicts/piece"


async def test_a_conflict_is_decided_with_both_sources_beside_each_other(
    browsers: dict[str, Browser], admin: Api
) -> None:
    admin_browser, auditor = browsers["Admin"], browsers["Auditor"]
    await admin.post_json("/v1/battery-products", {"sku": "A-1", "name": "Pack"})
    first, second = await create_document(admin, "PCF"), await create_document(admin, "PCF")
    await upload(admin, first, footprint(86_700))
    await upload(admin, second, footprint(79_000))

    open_piece = await admin_browser.show(PIECE)
    sides = re.findall(r'side-value">([^<]+)<', open_piece)
    await admin_browser.get("/console/conflicts")
    hidden = dict(re.findall(r'name="(sku|fact_type|fact_key|member)" value="([^"]+)"', open_piece))
    choice = {**hidden, "document_id": first, "reason": "it is <b>newer"}
    decided = await admin_browser.send("/console/conflicts/decide", choice)

    assert [side.strip() for side in sides] == ["79000.00", "86700.00"]
    assert f"/console/evidence/{first}" in open_piece
    assert f"/console/evidence/{second}" in open_piece
    assert (await auditor.get(PIECE)).status_code == 403
    assert decided.status_code == 303
    assert "No conflicts" in await admin_browser.show(PIECE)
    kept = await admin_browser.show(f"{PIECE}?sku=A-1&decided=1")
    assert [side.strip() for side in re.findall(r'side-value">([^<]+)<', kept)] == ["86700.00", "79000.00"]
