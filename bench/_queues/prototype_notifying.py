"""The prototype with its NOTIFY inside the submitting transaction, where no crash can part the two.

What that costs is the difference in the column of single submits: a transaction that notifies holds a lock of the whole
server while it commits.
"""

from bench._queues import prototype

SUBMIT = (
    f"WITH submitted AS ({prototype.SUBMIT} RETURNING id) SELECT pg_notify('{prototype.CHANNEL}', '') FROM submitted"
)


class Queue(prototype.Queue):
    async def submit(self, job: int) -> None:
        await self._pool.execute(SUBMIT, f"key-{job}", str(job))
