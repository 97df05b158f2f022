"""A program: twenty requests a second, each timed from when it should have been sent. It obeys lines.

python -m tests.neighbours.neighbour <url> <API key>
3.5                            ─► {"milliseconds": [4.1, …], "statuses": {"200": 70}}
(end of input)                 ─► it stops
"""

import asyncio
import json
import sys
import time
from collections import Counter
from typing import Any, Final

import httpx2

PER_SECOND: Final = 20
PATH: Final = "/v1/documents?limit=10"


async def _run(url: str, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=60) as http:
        for _ in range(20):
            await http.get(PATH)
        _say({})
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            statuses: Counter[int] = Counter()
            started_at = time.perf_counter()
            calls = [
                asyncio.create_task(_get(http, started_at + number / PER_SECOND, statuses))
                for number in range(int(float(line) * PER_SECOND))
            ]
            times = await asyncio.gather(*calls)
            _say({"milliseconds": times, "statuses": statuses})


async def _get(http: httpx2.AsyncClient, at: float, statuses: Counter[int]) -> float:
    await asyncio.sleep(max(0, at - time.perf_counter()))
    at = max(at, time.perf_counter() - 0.005)  # if this program itself is late, that is not the server's
    statuses[(await http.get(PATH)).status_code] += 1
    return round((time.perf_counter() - at) * 1000, 2)


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1], sys.argv[2]))
