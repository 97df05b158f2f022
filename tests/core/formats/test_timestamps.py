"""Time stamps: we write `2027-02-18T00:00:00.000000Z` and nothing else; of others we read every form of RFC 3339."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.formats.timestamps import (
    NotASentTime,
    NotATime,
    format_time,
    parse_sent_day,
    parse_sent_time,
    parse_sent_time_or_day,
    parse_time,
)
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


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2027-02-18T00:00:00.000000Z", "2027-02-18T00:00:00.000000Z"),
        ("2027-02-18T00:00:00Z", "2027-02-18T00:00:00.000000Z"),
        ("2027-02-18T00:00:00.123Z", "2027-02-18T00:00:00.123000Z"),  # JavaScript, toISOString()
        ("2027-02-18T00:00:00+00:00", "2027-02-18T00:00:00.000000Z"),  # Python, isoformat()
        ("2027-02-18T05:30:00.000007+05:30", "2027-02-18T00:00:00.000007Z"),
        ("2027-02-18T00:00:00.1234560Z", "2027-02-18T00:00:00.123456Z"),  # .NET, "o"
        ("2027-02-18T01:00:00.0000000+01:00", "2027-02-18T00:00:00.000000Z"),
        ("2027-02-17T20:00:00.000000000-04:00", "2027-02-18T00:00:00.000000Z"),  # Go, Java
        ("2027-02-18t00:00:00z", "2027-02-18T00:00:00.000000Z"),
        ("2027-02-18 00:00:00Z", "2027-02-18T00:00:00.000000Z"),
        ("2027-02-18T00:00:00-00:00", "2027-02-18T00:00:00.000000Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000000Z"),
        ("2017-01-01T00:59:60.5+01:00", "2017-01-01T00:00:00.500000Z"),
    ],
)
def test_every_form_of_rfc_3339_is_read(text: str, utc: str) -> None:
    assert format_time(parse_sent_time(text)) == utc
    assert format_time(parse_sent_time_or_day(text)) == utc


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2027-02-18T00:00:00", "has no time zone; add Z if it is UTC, or an offset like +01:00"),
        ("2027-02-18T00:00:00.1234567Z", "is more precise than a microsecond; round it to six digits after the point"),
        ("2027-02-18", "is a day, and a time is needed; write it like 2027-02-18T00:00:00.000000Z"),
        ("2027-02-30T00:00:00Z", "is not in the calendar; correct the day, the hour or the offset"),
        ("2027-02-18T24:00:00Z", "is not in the calendar; correct the day, the hour or the offset"),
        ("2027-02-18T12:00:60Z", "is not in the calendar; correct the day, the hour or the offset"),
        ("2027-02-18T00:00:00+24:00", "is not in the calendar; correct the day, the hour or the offset"),
        ("2027-02-18T00:00:00+00:60", "is not in the calendar; correct the day, the hour or the offset"),
        ("0001-01-01T00:00:00+01:00", "is not in the calendar; correct the day, the hour or the offset"),
        ("9999-12-31T23:59:60Z", "is not in the calendar; correct the day, the hour or the offset"),
    ],
)
def test_a_time_that_cannot_be_read_says_what_to_do(text: str, problem: str) -> None:
    with pytest.raises(NotASentTime) as refused:
        parse_sent_time(text)

    assert (refused.value.says, refused.value.problem) == (f"`{text}` {problem.partition(';')[0]}", problem)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "1800000000",
        "20270218T000000Z",
        "2027-02-18T00:00Z",
        "2027-02-18T00:00:00,5Z",
        "2027-02-18T00:00:00.Z",
        "2027-02-18T00:00:00+0100",
        "2027-02-18T00:00:00+01:00:30",
        "2027-02-18T00:00:00Z\n",
        "+02027-02-18T00:00:00Z",
        "٢٠٢٧-02-18T00:00:00Z",
        "2027-02-18T00:00:00 01:00",
    ],
)
def test_what_rfc_3339_does_not_know_is_refused(text: str) -> None:
    with pytest.raises(NotASentTime, match="is not a time of RFC 3339"):
        parse_sent_time(text)


def test_a_day_is_its_first_moment_in_utc() -> None:
    assert parse_sent_day("2027-02-18") == parse_sent_time_or_day("2027-02-18") == datetime(2027, 2, 18, tzinfo=UTC)
    for text, says in (("2027-02-29", "is not a day of the calendar"), ("20270218", "is not a day")):
        with pytest.raises(NotASentTime, match=says):
            parse_sent_day(text)


def test_a_plus_that_a_url_lost_is_found_again() -> None:
    assert parse_sent_time_or_day("2027-02-18T01:00:00 01:00") == datetime(2027, 2, 18, tzinfo=UTC)


@repeatable
@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones))
def test_what_isoformat_writes_is_read(moment: datetime) -> None:
    assert parse_sent_time(moment.isoformat()) == moment
    assert parse_sent_time(format_time(moment)) == moment
