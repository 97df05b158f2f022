"""Asking for access and using it, in Chromium: the code is in no address, and the granted view is checked there."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bpc.api.http.request_context import Service
from bpc.api.http.server import listen
from tests.api.conftest import Api
from tests.api.pages.access_scenario import IssuedPassports, read_reads
from tests.browser_tools import require_chromium, require_node_tools, run_node

SCRIPT = Path(__file__).parent / "browse_access.cjs"
ASKED = {"name": "Example Recycling", "contact": "ask@recycling.example", "purpose": "dismantling"}

pytestmark = pytest.mark.slow


async def browse(folder: Path, **plan: Any) -> Any:
    """What a person sees who does as the plan says."""
    file = folder / "plan.json"
    file.write_text(json.dumps({**plan, "screenshots": str(folder)}))
    chromium, modules = require_chromium(), require_node_tools()
    answer = await asyncio.to_thread(run_node, SCRIPT, chromium, str(file), modules=modules)
    return json.loads(answer)


async def test_a_person_asks_and_opens_the_link_that_they_are_sent(
    admin: Api, service: Service, issued: IssuedPassports, tmp_path: Path
) -> None:
    require_chromium()
    require_node_tools()
    async with listen(service, "127.0.0.1", 0) as port:
        root = f"http://127.0.0.1:{port}"
        asked = await browse(tmp_path, page=f"{root}/p/{issued.battery}", asked=ASKED)
        [request] = (await admin.get_json("/v1/view-requests"))["items"]
        approved = await admin.post_json(f"/v1/view-requests/{request['view_request_id']}:approve", {})
        link = f"{root}{urlsplit(approved['link']).path}#{approved['code']}"
        seen = await browse(tmp_path, link=link)

    assert asked["sent"].startswith("Your request was sent.")
    assert {name: request[name] for name in ASKED} == ASKED
    assert asked["violations"] == seen["opened"]["violations"] == []
    opened, form = seen["opened"], seen["form"]
    assert opened["state"] == "unknown", "every step holds, and no list says yet whether it is in force"
    assert set(opened["steps"].values()) <= {"step-good", "step-open"}
    assert "No value that you may see is missing" in opened["steps"]
    assert "model.rated_ah" in opened["paths"]
    assert "item.health_pct" not in opened["paths"]
    assert "Each read is recorded" in opened["granted"]
    assert (opened["file"], opened["cookies"], opened["overflow"]) == ("blob:", 0, 0)
    assert (form["rows"], form["problem"][:27]) == (len(opened["paths"]), "This code is not valid. Com")
    assert form["sentence"].startswith("Not checked")
    requests = [*asked["requests"], *seen["requests"]]
    assert not [address for address in requests if "bpg_" in urlsplit(address).path + urlsplit(address).query]
    assert {urlsplit(address).netloc for address in requests if address.startswith("http")} == {urlsplit(root).netloc}
    assert "#" not in opened["address"]
    refusals = ("401", "403", "422")  # the browser says so of answers that the page then explains
    assert [
        text for text in (*asked["complaints"], *seen["complaints"]) if not any(each in text for each in refusals)
    ] == []
    assert [read["form"] for read in await read_reads(admin, approved["view_grant_id"])] == ["page", "page"]
