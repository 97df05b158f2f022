"""The chores every worker does: schedules, batches, retention, and the figures that only the database knows."""

from typing import Final

from bpc.jobs import schedules
from bpc.jobs.batches import Finisher
from bpc.jobs.context import Connection
from bpc.jobs.health import by_type
from bpc.jobs.metrics import Metrics
from bpc.jobs.retention import Cleaner
from bpc.jobs.worker.chores import Chore

MOST_ROUNDS: Final = 5  # of a thousand jobs each, so that a chore stays short


def upkeep(metrics: Metrics) -> tuple[Chore, ...]:
    """What a worker does beside running jobs."""
    cleaner = Cleaner()

    async def clean(conn: Connection) -> None:
        for _ in range(MOST_ROUNDS):
            removed = await cleaner.run(conn)
            metrics.cleaned(removed)
            if not removed:
                break

    async def count(conn: Connection) -> None:
        found = await by_type(conn)
        metrics.observe_depth({name: of.queued + of.later for name, of in found.items()})
        metrics.observe_dead_letters({name: of.dead_letter for name, of in found.items()})

    return (
        Chore("schedules", 0.5, schedules.tick),
        Chore("batches", 1.0, Finisher().run),
        Chore("retention", 2.0, clean),
        Chore("figures", 15.0, count),
    )
