"""A job that saved a checkpoint goes on from there after `kill -9` of its worker."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from service_jobs import Context, Handlers, Jobs
from tests.jobs.support.child_environment import build_child_environment
from tests.jobs.support.run_workers import run_worker, wait_until_status

from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from tests.measurements import allow_seconds

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

    killed = subprocess.run(
        [sys.executable, "-m", __name__, orjson.dumps(told).decode()],
        env=build_child_environment(),
        check=False,
        timeout=60,
    )
    async with run_worker(jobs):
        await wait_until_status(jobs, tenant, job_id, "SUCCEEDED", seconds=allow_seconds(6))

    assert killed.returncode == -signal.SIGKILL
    assert note.read_text().split() == [str(n) for n in range(1, COUNT_TO + 1)]
    assert (await jobs.get_job(tenant, job_id)).attempts == 2


if __name__ == "__main__":
    import asyncio

    from service_jobs import Sessions, Worker

    from bpc.storage.connection import APP_ROLE, SYSTEM_ROLE, connect

    async def work() -> None:
        told = orjson.loads(sys.argv[1])
        handlers = Handlers()
        counting(handlers, Path(told["note"]), dies=True)

        async def connected(*_: object, **named: object) -> object:
            return await connect(**told["address"] | named)

        sessions = Sessions(connected, size=4, role=APP_ROLE, worker_role=SYSTEM_ROLE)  # type: ignore[arg-type]
        await sessions.open()
        await Worker(Jobs(handlers, sessions)).run()

    asyncio.run(work())
