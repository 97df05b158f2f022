"""service_jobs with every single submission in a transaction of its own, as the others do it.

Left to itself the engine lets submissions that arrive together share a commit.
"""

from bench._queues import ours


class Queue(ours.Queue):
    async def submit(self, job: int) -> None:
        async with self._sessions.acquire() as conn:
            await self._jobs.submit(ours.nothing, job, tenant=self._tenant, key=f"key-{job}", conn=conn)
