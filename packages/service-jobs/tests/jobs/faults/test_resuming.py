"""A job that saved a checkpoint goes on from there after `kill -9` of its worker."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from bpc.core.ids import TenantId
from bpc.db.address import Address
from bpc.jobs import Context, Handlers, Jobs
from tests.jobs.working import until_status, working
from tests.measuring import allowed

pytestmark = pytest.mark.external

COUNT_TO = 10
DIES_AT = 6


def counting(handlers: Handlers, note: Path, *, dies: bool) -> None:
    """Register a job that writes down each number it comes to, and kills its process in the middle if it is told to."""

    @handlers.job("count")
    async def count(ctx: Context, to: int) -> int:
        for n in range((ctx.checkpoint or {"done": 0})["done"] + 1, to + 1):
            with note.open("a") as notes:
                notes.write(f"{n}\n")
            await ctx.save_checkpoint({"done": n})
            if dies and n == DIES_AT:
                os.kill(os.getpid(), signal.SIGKILL)
        return to


async def test_a_checkpointed_job_resumes_where_it_was_after_kill_9(
    jobs: Jobs, handlers: Handlers, address: Address, tenant: TenantId, tmp_path: Path
) -> None:
    note = tmp_path / "notes"
    counting(handlers, note, dies=False)
    job_id = await jobs.submit(handlers["count"], COUNT_TO, tenant=tenant)
    told = {"address": address.connect_arguments(), "note": str(note)}

    killed = subprocess.run([sys.executable, "-m", __name__, orjson.dumps(told).decode()], check=False, timeout=60)
    async with working(jobs):
        await until_status(jobs, tenant, job_id, "SUCCEEDED", seconds=allowed(6))

    assert killed.returncode == -signal.SIGKILL
    assert note.read_text().split() == [str(n) for n in range(1, COUNT_TO + 1)]
    assert (await jobs.job(tenant, job_id)).attempts == 2


if __name__ == "__main__":
    import asyncio

    from bpc.db.connection import connect
    from bpc.db.roles import APP, SYSTEM
    from bpc.jobs import Sessions, Worker

    async def work() -> None:
        told = orjson.loads(sys.argv[1])
        handlers = Handlers()
        counting(handlers, Path(told["note"]), dies=True)

        async def connected(*_: object, **named: object) -> object:
            return await connect(**told["address"] | named)

        sessions = Sessions(connected, size=4, role=APP, worker_role=SYSTEM)  # type: ignore[arg-type]
        await sessions.open()
        await Worker(Jobs(handlers, sessions)).run()

    asyncio.run(work())
