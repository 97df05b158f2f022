"""The life of a battery: waste comes before another life and before the end, and the end is final."""

from datetime import UTC, date, datetime, timedelta
from itertools import product

from bpc.core.batteries.status import (
    REQUIRED_STATEMENTS,
    BatteryChange,
    BatteryState,
    BatteryStatus,
    ChangeKind,
    compute_state,
    find_step_fault,
    list_missing_statements,
)

NOON = datetime(2027, 8, 18, 12, tzinfo=UTC)
STATUSES: tuple[BatteryStatus, ...] = ("original", "re-used", "repurposed", "remanufactured", "waste")


def test_only_waste_is_recycled_or_gets_another_life_and_waste_is_not_repaired() -> None:
    allowed = {
        (status, kind)
        for status, kind in product(STATUSES, REQUIRED_STATEMENTS)
        if find_step_fault(BatteryState(status=status), kind) is None
    }

    in_use = [(status, kind) for status in STATUSES[:4] for kind in ("PLACED", "REPAIRED", "WASTE", "BEGUN")]
    assert allowed == {*in_use, ("waste", "RECYCLED"), ("waste", "SUCCEEDED")}


def test_nothing_follows_the_end_nor_a_life_that_goes_on_elsewhere() -> None:
    for kind in REQUIRED_STATEMENTS:
        assert find_step_fault(BatteryState(status="waste", ceased_at=NOON), kind) == (
            "is recycled, and its passport has ceased"
        )
        fault = find_step_fault(BatteryState(status="repurposed", successor="/p/1"), kind)
        assert fault == "lives on as /p/1, whose operator answers for it"
    placed = BatteryState(placed_on=date(2027, 8, 1))
    assert find_step_fault(placed, "PLACED") == "was placed on the market on 2027-08-01"


def test_what_must_be_said_is_said() -> None:
    assert list_missing_statements("WASTE", {"reason": "old"}) == ["performed_by"]
    assert list_missing_statements("RECYCLED", {"performed_by": "LEI:X", "report": ""}) == ["report"]
    assert list_missing_statements("PLACED", {}) == []


def test_the_state_at_a_time_is_what_was_on_record_then() -> None:
    def change(kind: ChangeKind, status: BatteryStatus, hours: int, **said: str) -> BatteryChange:
        return BatteryChange(
            kind=kind,
            status=status,
            effective_on=date(2027, 8, 18),
            said=said,
            changed_at=NOON + timedelta(hours=hours),
        )

    changes = [change("PLACED", "original", 1), change("WASTE", "waste", 2), change("RECYCLED", "waste", 3)]
    after = [compute_state(None, changes, NOON + timedelta(hours=hours)) for hours in range(4)]

    assert after == [
        BatteryState(),
        BatteryState(placed_on=date(2027, 8, 18)),
        BatteryState(placed_on=date(2027, 8, 18), status="waste"),
        BatteryState(placed_on=date(2027, 8, 18), status="waste", ceased_at=NOON + timedelta(hours=3)),
    ]
    succession = change("SUCCEEDED", "re-used", 3, successor="/p/1")
    assert compute_state(date(2027, 1, 1), [changes[1], succession], NOON + timedelta(hours=9)) == BatteryState(
        status="re-used", placed_on=date(2027, 1, 1), successor="/p/1"
    )
