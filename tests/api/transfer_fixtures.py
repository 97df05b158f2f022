"""What tests of transfers share: what is sent, and waiting for what becomes of it."""

import asyncio
from typing import Any

from tests.api.conftest import Api

STEP = {"effective_on": "2025-09-01", "performed_by": "GLN:9521234000006", "reason": "it was handed in"}
ANSWER = {
    "life": "repurposed",
    "effective_on": "2025-09-02",
    "operator": "GLN:9521234000013",
    "sku": "STORAGE-5",
    "serial_number": "S1",
}
PASSED = {"reason": "it does not fit"}


async def wait_for_state(api: Api, transfer: str, state: str) -> Any:
    async with asyncio.timeout(60):
        while (row := await api.get_json(f"/v1/transfers/{transfer}"))["state"] != state:
            await asyncio.sleep(0.02)
    return row


async def wait_until_over(api: Api, transfer: str) -> Any:
    async with asyncio.timeout(60):
        while (row := await api.get_json(f"/v1/transfers/{transfer}"))["state"] in {"OFFERED", "ACCEPTED"}:
            await asyncio.sleep(0.02)
    return row
