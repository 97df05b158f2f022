"""Retention and clocks: the database's time decides, and no order, however it came about, removes what is young."""

from datetime import timedelta

import asyncpg
import pytest

from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.database import Database
from bpc.storage.server_time import ClockDiffers, LogDisagrees, require_agreeing_clock, require_agreeing_log
from bpc.tasks.retention import CutoffRefused, Cutoffs, require_allowed_cutoffs
from tests.tasks.retention_fixtures import NOW, SETTINGS, make_order

WRONG = [timedelta(days=16 * 365), timedelta(days=-400)]


@pytest.mark.parametrize("skew", WRONG, ids=str)
async def test_a_process_with_a_wrong_clock_starts_no_retention_and_goes_on_with_the_right_time(
    database: Database, tenant: TenantId, monkeypatch: pytest.MonkeyPatch, skew: timedelta
) -> None:
    right = clock.system_now
    with monkeypatch.context() as patch:
        patch.setattr(clock, "system_now", lambda: right() + skew)
        async with database.system(tenant) as conn:
            with pytest.raises(ClockDiffers) as refused:
                await require_agreeing_clock(conn)
        apart = abs(clock.now() - right())

    assert (refused.value.code, refused.value.retryable) == ("CLOCK_DIFFERS", True)
    assert ("ahead of" if skew > timedelta(0) else "behind") in refused.value.says
    assert apart < timedelta(seconds=5)
    async with database.system(tenant) as conn:
        assert abs(await require_agreeing_clock(conn) - right()) < timedelta(seconds=5)


async def test_retention_waits_until_the_log_and_the_clock_of_the_database_agree(
    database: Database, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    """A checkpoint from the future, or none for two days: the database's clock may have been set."""
    async with database.system(tenant) as conn:
        now = await require_agreeing_clock(conn)
        await require_agreeing_log(conn, now)  # no log, nothing to agree with
    await superuser.execute("INSERT INTO log_checkpoints VALUES (1, sha256(''), 'x', true, now())")
    for hours, is_allowed in ((0, True), (47, True), (49, False), (-1, False), (24 * 365, False)):
        async with database.system(tenant) as conn:
            if is_allowed:
                await require_agreeing_log(conn, now + timedelta(hours=hours))
                continue
            with pytest.raises(LogDisagrees) as refused:
                await require_agreeing_log(conn, now + timedelta(hours=hours))
            assert refused.value.code == "CLOCK_DIFFERS"


@pytest.mark.parametrize(
    ("days_ago", "floor", "is_allowed"),
    [(-1, 0, False), (0, 0, True), (1, 0, True), (1824, 1825, False), (1825, 1825, True), (-5840, 1825, False)],
)
def test_a_cutoff_in_the_future_or_younger_than_the_floor_is_refused(
    days_ago: int, floor: int, is_allowed: bool
) -> None:
    cutoffs = make_order(NOW - timedelta(days=days_ago)).cutoffs

    if is_allowed:
        require_allowed_cutoffs(cutoffs, NOW, floor_days=floor)
    else:
        with pytest.raises(CutoffRefused):
            require_allowed_cutoffs(cutoffs, NOW, floor_days=floor)


def test_the_floor_is_years_in_prod_and_can_be_set() -> None:
    prod = SETTINGS.model_copy(update={"env": "prod"})
    short = prod.model_copy(update={"retention_events_days": 30})

    require_allowed_cutoffs(Cutoffs.from_settings(prod, NOW), NOW, floor_days=prod.retention_floor)
    with pytest.raises(CutoffRefused, match="events"):
        require_allowed_cutoffs(Cutoffs.from_settings(short, NOW), NOW, floor_days=short.retention_floor)
    lower = short.model_copy(update={"retention_floor_days": 30})
    require_allowed_cutoffs(Cutoffs.from_settings(lower, NOW), NOW, floor_days=lower.retention_floor)
