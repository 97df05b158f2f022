"""Chromium goes through pages of the console by a plan, and says what it saw."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from tests.browser_tools import require_chromium, require_node_tools, run_node
from tests.cli.program import Program

SCRIPT: Final = Path(__file__).parent / "api" / "console" / "browse_console.cjs"


async def browse(folder: Path, plan: dict[str, Any]) -> list[dict[str, Any]]:
    file = folder / "plan.json"
    file.write_text(json.dumps(plan))
    modules = require_node_tools()
    output = await asyncio.to_thread(run_node, SCRIPT, require_chromium(), str(file), timeout=600, modules=modules)
    sights: list[dict[str, Any]] = json.loads(output)
    return sights


async def take_journey(bpc: Program, tenant: str, role: str, visit: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One visit of somebody with this role; it loads nothing from elsewhere, and the last page is for everybody."""
    link = bpc.run_ok("console", "link", "--tenant", tenant, "--role", role, "--json").json()["link"]
    plan = {"address": bpc.settings["BPC_URL"], "sessions": [{"link": link, "visits": [{"axe": True, **visit}]}]}
    [sight] = await browse(folder, plan)
    assert sight["violations"] == []
    assert sight["foreign"] == []
    return sight
