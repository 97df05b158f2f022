"""What happens every night by itself: the schedules of the tenant `system`.

A worker sees to them when it starts; seeing to them again changes nothing, and one that somebody paused stays paused.
"""

from bpc.errands import replay_audit, retention
from bpc.jobs.schedules import Schedule


def schedules() -> tuple[Schedule, ...]:
    """Each with its time and its job; a job that fans out to all tenants takes none of their names from here."""
    return (replay_audit.nightly(), retention.nightly())
