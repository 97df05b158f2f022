"""A program: the API on a database, with a watch on its event loop. It says its port, then obeys lines.

python -m tests.neighbours.watched_server <address and settings, as JSON>
{"port": 40123}
reset                          ─► {}
report                         ─► {"longest_ms": 12.3, "callback": "…", "memory_mb": 120}
(end of input)                 ─► it stops
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from bpc.api.http.server import keep_loaded_objects, listen, open_service
from bpc.core.audit.signing import Signer
from bpc.runtime import logs
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.database import open_database
from bpc.worker.run import run_worker
from tests.api.conftest import KEY_ID, PEPPERS, SEED
from tests.neighbours.loop_watch import LoopWatch, watch_loop


async def _serve(order: dict[str, Any], watch: LoopWatch) -> None:
    settings = Settings(env="test", signing_key_id=KEY_ID, compiler_build_id="bpc-test", **order["settings"])
    database = await open_database(Address(**order["address"]), pool_size=settings.db_pool_size)
    key_ring = KeyRing({KEY_ID: Signer(SEED)}, settings)
    try:
        if order["role"] == "worker":
            async with run_worker(settings, database, key_ring=key_ring):
                _say({"port": 0})
                await _obey(watch)
        else:
            async with (
                open_service(settings, database, peppers=PEPPERS, key_ring=key_ring) as service,
                listen(service, "127.0.0.1", 0) as port,
            ):
                keep_loaded_objects()  # as the command does
                _say({"port": port})
                await _obey(watch)
    finally:
        await database.close()


async def _obey(watch: LoopWatch) -> None:
    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if line == "reset":
            watch.reset()
            _say({})
        else:
            longest = watch.longest
            _say({"longest_ms": longest.milliseconds, "callback": longest.callback, "memory_mb": _read_memory()})


def _read_memory() -> int:
    """The resident memory of this process, in MB; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) // 1000 for line in lines if line.startswith("VmRSS:")), 0)


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    logs.configure(level="error", json=True, component="api")
    with watch_loop() as loop_watch:
        asyncio.run(_serve(json.loads(sys.argv[1]), loop_watch))
