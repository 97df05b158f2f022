"""Evidence in the console: a file is uploaded with its document, read, and withdrawn."""

import re

from bpc.api.console.page_routes import KEY_FIELD, TOKEN_FIELD
from bpc.runtime import clock
from tests.api.conftest import Api
from tests.api.console.conftest import ADDRESS, Browser

ROW = b'{"battery":{"sku":"SKU-1","capacity_kwh":"75.5"}}'


async def test_a_document_is_added_with_its_file_and_withdrawn(admin_browser: Browser, admin: Api) -> None:
    await admin_browser.show("/console/evidence")
    fields = {TOKEN_FIELD: admin_browser.token, KEY_FIELD: str(clock.new_id()), "kind": "BOM", "name": "bom"}

    answers = [
        await admin_browser.http.post(
            "/console/evidence",
            data=fields,
            files={"file": ("bom.json", ROW, "application/json")},
            headers={"Origin": ADDRESS},
        )
        for _ in range(2)  # a browser that sends it twice
    ]
    path = answers[0].headers["location"].partition("?")[0]
    page = await admin_browser.show(path)
    await admin_browser.send(f"{path}/withdraw", {"reason": "wrong battery"})
    withdrawn_page = await admin_browser.show(path)

    assert answers[0].headers["location"] == answers[1].headers["location"]
    assert len((await admin.get_json("/v1/documents"))["items"]) == 1
    assert re.search(r"being read|rejected|>read<", page)
    assert "withdrawn" in withdrawn_page
