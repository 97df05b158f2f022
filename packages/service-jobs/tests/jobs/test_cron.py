"""Cron: which moments an expression means, when clocks are changed, and which missed moments are made up for."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st
from service_jobs.cron import MAX_MOMENTS_PER_TICK, SKIP_GRACE, CatchUp, Cron, DueMoments, find_due_moments
from service_jobs.job import InvalidInput

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
EXPRESSIONS = ["* * * * *", "*/15 * * * *", "0 * * * *", "30 2 * * *", "15,45 1-3 * * *", "*/20 * * * * *", "0 0 1 * *"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Australia/Lord_Howe", "Asia/Kathmandu"]


def list_moments(expression: str, zone: str, after: str, count: int) -> list[str]:
    """The next `count` moments, as the local wall clock and its distance from UTC."""
    iterator = islice(Cron(expression, zone).iterate_after(datetime.fromisoformat(after)), count)
    return [f"{moment.astimezone(ZoneInfo(zone)):%d. %H:%M%z}" for moment in iterator]


@pytest.mark.parametrize(
    ("expression", "next_at"),
    [
        ("* * * * *", "2026-11-16 12:01:00"),
        ("0 12 * * *", "2026-11-17 12:00:00"),
        ("30 2 * * 1-5", "2026-11-17 02:30:00"),
        ("0 0 29 2 *", "2028-02-29 00:00:00"),
        ("0 9 L * *", "2026-11-30 09:00:00"),
        ("0 9 * * MON#1", "2026-12-07 09:00:00"),
        ("*/10 * * * * *", "2026-11-16 12:00:10"),
        ("@hourly", "2026-11-16 13:00:00"),
        ("@Daily", "2026-11-17 00:00:00"),
        ("@weekly", "2026-11-22 00:00:00"),
        ("@monthly", "2026-12-01 00:00:00"),
        ("@yearly", "2027-01-01 00:00:00"),
    ],
)
def test_the_next_moment_is_the_first_that_is_later(expression: str, next_at: str) -> None:
    assert Cron(expression).find_next_after(NOON) == datetime.fromisoformat(next_at).replace(tzinfo=UTC)


def test_a_fraction_of_a_second_does_not_make_a_moment_later() -> None:
    just_before = NOON - timedelta(microseconds=1)

    assert Cron("0 12 * * *").find_next_after(just_before) == NOON


def test_a_time_that_does_not_exist_is_replaced_by_the_first_that_does() -> None:
    assert list_moments("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00Z", 3) == [
        "28. 02:30+0100",
        "29. 03:00+0200",
        "30. 02:30+0200",
    ]


def test_several_times_that_do_not_exist_are_replaced_together() -> None:
    assert list_moments("15,45 2 * * *", "Europe/Berlin", "2026-03-28T23:00Z", 2) == [
        "29. 03:00+0200",
        "30. 02:15+0200",
    ]


def test_of_a_time_that_exists_twice_the_first_is_meant() -> None:
    assert list_moments("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", 2) == ["25. 02:30+0200", "26. 02:30+0100"]


def test_a_fixed_time_is_not_repeated_for_who_looks_between_its_two_appearances() -> None:
    in_the_second_two_o_clock = "2026-10-25T01:10Z"

    assert list_moments("30 2 * * *", "Europe/Berlin", in_the_second_two_o_clock, 1) == ["26. 02:30+0100"]


def test_what_happens_all_the_time_goes_on_as_real_time_passes() -> None:
    assert list_moments("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00Z", 3) == [
        "29. 01:30+0100",
        "29. 03:00+0200",
        "29. 03:30+0200",
    ]
    assert list_moments("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:30Z", 5) == [
        "25. 02:00+0200",
        "25. 02:30+0200",
        "25. 02:00+0100",
        "25. 02:30+0100",
        "25. 03:00+0100",
    ]


@pytest.mark.parametrize(
    "expression", ["0 * * * *", "30 * * * *", "*/15 2 * * *", "*/20 0 * * *", "5 */3 * * *", "* 0 * * 0"]
)
@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Europe/Berlin", "2026-03-28"),
        ("Europe/Berlin", "2026-10-24"),
        ("Australia/Lord_Howe", "2026-04-03"),  # by half an hour
        ("Australia/Lord_Howe", "2026-10-02"),
        ("America/Havana", "2026-03-07"),  # at midnight
        ("America/Havana", "2026-10-31"),
        ("Asia/Kathmandu", "2026-11-16"),  # never
    ],
)
def test_what_passes_with_time_is_every_minute_at_which_the_clock_on_the_wall_says_so(
    expression: str, zone: str, day: str
) -> None:
    start = datetime.fromisoformat(f"{day}T00:00Z")
    end = start + timedelta(days=3)
    said = CronSim(expression, datetime(2000, 1, 1))
    every_minute = [start + timedelta(minutes=n) for n in range(1, 3 * 24 * 60 + 1)]
    walls = [(moment, moment.astimezone(ZoneInfo(zone))) for moment in every_minute]

    actual = list(takewhile(lambda moment: moment <= end, Cron(expression, zone).iterate_after(start)))

    assert actual == [
        moment
        for moment, wall in walls
        if wall.minute in said.minutes and wall.hour in said.hours and said.match_day(wall.date())
    ]


def test_a_rare_moment_is_found_without_going_through_all_the_years() -> None:
    assert list_moments("* 4 29 2 *", "Europe/Berlin", "2028-03-01T00:00Z", 2) == ["29. 04:00+0100", "29. 04:01+0100"]
    assert Cron("* * 29 2 */7", "Europe/Berlin").find_next_after(NOON) == datetime(2032, 2, 28, 23, 0, tzinfo=UTC)


@pytest.mark.parametrize("minute", ["0", "*"])
@pytest.mark.parametrize("policy", list(CatchUp))
def test_a_day_that_never_comes_is_not_looked_for_forever(minute: str, policy: CatchUp) -> None:
    first_and_fifth_monday = Cron(f"{minute} 0 */31 * MON#5", "Europe/Berlin")

    assert first_and_fifth_monday.find_next_after(NOON) is None
    assert find_due_moments(first_and_fifth_monday, NOON, NOON, policy) == DueMoments((NOON,), None)


def test_seconds_do_not_change_what_happens_when_clocks_change() -> None:
    assert list_moments("0 30 2 * * *", "Europe/Berlin", "2026-03-28T23:00Z", 1) == ["29. 03:00+0200"]
    assert list_moments("0 30 2 * * *", "Europe/Berlin", "2026-10-25T00:30Z", 1) == ["26. 02:30+0100"]


@given(
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(ZONES),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC)),
)
def test_moments_are_whole_seconds_in_order_and_do_not_depend_on_where_one_starts(
    expression: str, zone: str, start: datetime
) -> None:
    cron = Cron(expression, zone)

    actual = list(islice(cron.iterate_after(start), 20))

    assert actual[0] > start
    assert all(earlier < later for earlier, later in pairwise(actual))
    assert all(moment.microsecond == 0 and moment.tzinfo is UTC for moment in actual)
    assert actual[1:] == list(islice(cron.iterate_after(actual[0]), 19))


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("", "`` is not a valid cron expression: it has 0 fields instead of 5"),
        ("* * * *", "`* * * *` is not a valid cron expression: it has 4 fields instead of 5"),
        ("61 * * * *", "`61 * * * *` is not a valid cron expression: minute is not valid"),
        ("* * * * FOO", "`* * * * FOO` is not a valid cron expression: day-of-week is not valid"),
        ("0 0 30 2 *", "`0 0 30 2 *` is not a valid cron expression: day-of-month is not valid"),
        ("@reboot", "`@reboot` is not a valid cron expression: it has 1 fields instead of 5"),
        ("9" * 5_000 + " * * * *", "a cron expression has at most 200 characters"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason_and_a_way_out(expression: str, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Cron(expression)

    assert refused.value.says == says
    assert refused.value.fix is not None
    assert "`minute hour day month weekday`" in refused.value.fix


@given(st.text(max_size=30))
def test_whatever_is_written_is_read_or_refused(expression: str) -> None:
    try:
        Cron(expression).find_next_after(NOON)
    except InvalidInput as refused:
        assert refused.fix  # noqa: PT017 (either way is right)


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("Europe/Berlim", "did you mean `Europe/Berlin`?"),
        ("Middle-earth", "name one as in `Europe/Berlin` or `UTC`"),
        ("../../etc/passwd", "name one as in `Europe/Berlin` or `UTC`"),
        ("", "name one as in `Europe/Berlin` or `UTC`"),
    ],
)
def test_a_time_zone_that_does_not_exist_is_refused(name: str, fix: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Cron("* * * * *", name)

    assert refused.value.says == f"there is no time zone `{name}`"
    assert refused.value.fix == fix


@pytest.mark.parametrize("policy", list(CatchUp))
def test_a_moment_that_is_seen_in_time_gets_its_job_whatever_the_policy(policy: CatchUp) -> None:
    due_moments = find_due_moments(Cron("* * * * *"), NOON, NOON + timedelta(seconds=1), policy)

    assert due_moments.moments == (NOON,)
    assert due_moments.next_at == NOON + timedelta(minutes=1)


def test_skip_drops_what_is_more_than_a_minute_late() -> None:
    late = find_due_moments(Cron("0 * * * *"), NOON, NOON + SKIP_GRACE + timedelta(seconds=1), CatchUp.SKIP)
    in_time = find_due_moments(Cron("0 * * * *"), NOON, NOON + SKIP_GRACE, CatchUp.SKIP)
    every_minute = find_due_moments(Cron("* * * * *"), NOON, NOON + timedelta(minutes=90, seconds=5), CatchUp.SKIP)

    assert late.moments == ()
    assert late.next_at == NOON + timedelta(hours=1)
    assert in_time.moments == (NOON,)
    assert every_minute.moments == (NOON + timedelta(minutes=90),)


def test_one_stands_for_all_that_were_missed() -> None:
    due_moments = find_due_moments(Cron("0 * * * *"), NOON, NOON + timedelta(hours=5, minutes=10), CatchUp.ONE)

    assert due_moments.moments == (NOON,)
    assert due_moments.next_at == NOON + timedelta(hours=6)


def test_all_that_were_missed_get_a_job_a_thousand_at_a_time() -> None:
    now = NOON + timedelta(minutes=2_500)
    next_at: datetime | None = NOON
    collected: list[datetime] = []

    while next_at is not None and next_at <= now:
        some = find_due_moments(Cron("* * * * *"), next_at, now, CatchUp.ALL)
        assert 0 < len(some.moments) <= MAX_MOMENTS_PER_TICK
        collected += some.moments
        next_at = some.next_at

    assert collected == [NOON + timedelta(minutes=n) for n in range(2_501)]
    assert next_at == now + timedelta(minutes=1)


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), st.integers(0, 90_000), st.sampled_from(list(CatchUp)))
def test_what_comes_next_is_later_than_what_was_done(expression: str, zone: str, late: int, policy: CatchUp) -> None:
    cron = Cron(expression, zone)
    first = cron.find_next_after(NOON)
    assert first is not None
    now = first + timedelta(seconds=late)

    due_moments = find_due_moments(cron, first, now, policy)

    assert due_moments.next_at is not None
    assert all(first <= moment <= now < due_moments.next_at or policy is CatchUp.ALL for moment in due_moments.moments)
    assert all(moment < due_moments.next_at for moment in due_moments.moments)
