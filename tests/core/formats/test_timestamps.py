"""Time stamps: `2027-02-18T00:00:00.000000Z` and nothing else."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.formats.timestamps import NotATime, format_time, parse_time
from tests.measurements import choose_examples

repeatable = settings(derandomize=True, max_examples=choose_examples(300))
zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(timezones=st.just(UTC))


def test_a_moment_is_written_in_utc_with_six_digits() -> None:
    assert format_time(datetime(2027, 2, 18, tzinfo=UTC)) == "2027-02-18T00:00:00.000000Z"
    assert format_time(datetime(2027, 12, 31, 23, 59, 59, 7, tzinfo=UTC)) == "2027-12-31T23:59:59.000007Z"


def test_a_moment_in_another_zone_is_converted() -> None:
    berlin = timezone(timedelta(hours=1))

    assert format_time(datetime(2027, 1, 1, tzinfo=berlin)) == "2026-12-31T23:00:00.000000Z"


def test_an_early_year_has_four_digits() -> None:
    assert format_time(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00.000000Z"
    assert parse_time("0999-01-01T00:00:00.000000Z").year == 999


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(NotATime, match=r"^`2027-02-18 00:00:00` has no time zone$"):
        format_time(datetime(2027, 2, 18))


@pytest.mark.parametrize(("year", "hours"), [(1, 1), (9999, -1)])
def test_a_moment_that_leaves_the_calendar_in_utc_is_refused(year: int, hours: int) -> None:
    edge = datetime(1, 1, 1) if year == 1 else datetime(9999, 12, 31, 23, 59)

    with pytest.raises(NotATime, match="outside the years 1 to 9999"):
        format_time(edge.replace(tzinfo=timezone(timedelta(hours=hours))))


@repeatable
@given(moments)
def test_reading_gives_the_moment_back(moment: datetime) -> None:
    text = format_time(moment)

    assert parse_time(text) == moment
    assert parse_time(text).tzinfo is UTC
    assert format_time(parse_time(text)) == text
    assert len(text) == 27


@repeatable
@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones))
def test_the_zone_a_moment_comes_in_does_not_matter(moment: datetime) -> None:
    assert format_time(moment) == format_time(moment.astimezone(UTC))


@repeatable
@given(moments, moments)
def test_texts_sort_as_moments_do(one: datetime, other: datetime) -> None:
    assert (format_time(one) < format_time(other)) == (one < other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2027-02-18",
        "20270218T000000.000000Z",
        "2027-02-18T00:00:00Z",
        "2027-02-18T00:00:00.000Z",
        "2027-02-18T00:00:00.0000000Z",
        "2027-02-18T00:00:00,000000Z",
        "2027-02-18T00:00:00.000000z",
        "2027-02-18t00:00:00.000000Z",
        "2027-02-18 00:00:00.000000Z",
        "2027-02-18T00:00:00.000000",
        "2027-02-18T00:00:00.000000+00:00",
        "2027-02-18T00:00:00.000000Z\n",
        " 2027-02-18T00:00:00.000000Z",
        "2027-02-30T00:00:00.000000Z",
        "2027-13-01T00:00:00.000000Z",
        "2027-02-18T24:00:00.000000Z",
        "2016-12-31T23:59:60.000000Z",
        "0000-01-01T00:00:00.000000Z",
        "-027-02-18T00:00:00.000000Z",
        "٢٠٢٧-02-18T00:00:00.000000Z",
        "2027-02-18T00:00:00x000000Z",
    ],
)
def test_any_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(NotATime) as refused:
        parse_time(text)

    assert refused.value.says == f"`{text}` is not a time; write it like `2027-02-18T00:00:00.000000Z`"
