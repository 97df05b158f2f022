"""Specification of what follows from how an execution ended: when it runs again, and when it is over."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_jobs.execution import build_cancellation, build_failure, build_rejection, build_release, build_success
from service_jobs.job import Ending, InvalidInput, JobError, LeaseLost, Retry, Status

BROKE = JobError(code="INTERNAL_ERROR", message="it broke", retryable=True)
WRONG = JobError(code="VALIDATION_ERROR", message="it is wrong", retryable=False)
RETRIES = st.builds(
    Retry,
    attempts=st.none() | st.integers(1, 100),
    first_delay=st.floats(0, 1e6),
    factor=st.floats(1, 100),
    longest_delay=st.floats(0, 1e6),
)


def test_failures_are_tried_again_after_2_4_8_and_16_seconds_and_the_fifth_is_the_last() -> None:
    ends = [build_failure(BROKE, attempt=attempt, max_attempts=5, retry=Retry()) for attempt in range(1, 6)]

    assert [(end.ending, end.delay) for end in ends] == [
        (Ending.RETRY, 2.0),
        (Ending.RETRY, 4.0),
        (Ending.RETRY, 8.0),
        (Ending.RETRY, 16.0),
        (Ending.DEAD_LETTER, 0.0),
    ]
    assert [end.error for end in ends] == [BROKE] * 5


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(9, 512.0), (10, 1024.0), (11, 1024.0), (1000, 1024.0), (10**9, 1024.0)]
)
def test_no_rest_is_longer_than_1024_seconds(attempt: int, seconds: float) -> None:
    assert Retry().delay_after(attempt) == seconds


@pytest.mark.parametrize(
    ("retry_after", "delay"), [(0.0, 4.0), (1.0, 4.0), (30.0, 30.0), (1e9, 1024.0), (float("inf"), 1024.0)]
)
def test_a_rest_that_was_asked_for_is_kept_within_bounds(retry_after: float, delay: float) -> None:
    assert build_failure(BROKE, attempt=2, max_attempts=5, retry=Retry(), min_delay=retry_after).delay == delay
    assert (
        build_failure(BROKE, attempt=5, max_attempts=5, retry=Retry(), min_delay=retry_after).ending
        is Ending.DEAD_LETTER
    )
    assert build_failure(WRONG, attempt=1, max_attempts=5, retry=Retry(), min_delay=retry_after).ending is Ending.FAILED


@given(RETRIES, st.integers(1, 10_000))
def test_rests_grow_and_never_pass_the_longest(retry: Retry, attempt: int) -> None:
    rest, next_rest = retry.delay_after(attempt), retry.delay_after(attempt + 1)

    assert 0 <= rest <= next_rest <= retry.longest_delay


@given(RETRIES, st.floats(0, 1), st.floats(0, 1), st.integers(1, 50))
def test_jitter_makes_a_rest_longer_by_a_share_and_never_shorter(
    retry: Retry, jitter: float, chance: float, attempt: int
) -> None:
    rest = retry.delay_after(attempt)

    longer = replace(retry, jitter=jitter).delay_after(attempt, chance=chance)

    assert rest <= longer <= rest * (1 + jitter)


def test_jobs_that_failed_together_come_back_at_different_times() -> None:
    retry = Retry(first_delay=100.0, jitter=0.5)

    delays = {build_failure(BROKE, attempt=1, max_attempts=5, retry=retry).delay for _ in range(50)}

    assert len(delays) > 40
    assert all(100.0 <= delay <= 150.0 for delay in delays)


def test_a_plan_says_how_long_a_rest_may_be_asked_for() -> None:
    retry = Retry(longest_delay=10.0, longest_requested_delay=3600.0)

    assert build_failure(BROKE, attempt=1, max_attempts=5, retry=retry, min_delay=1800.0).delay == 1800.0
    assert build_failure(BROKE, attempt=1, max_attempts=5, retry=retry, min_delay=9999.0).delay == 3600.0
    assert build_failure(BROKE, attempt=9, max_attempts=10, retry=retry).delay == 10.0


def test_what_would_fail_again_is_over_at_once_whatever_attempts_are_left() -> None:
    end = build_failure(WRONG, attempt=1, max_attempts=5, retry=Retry())

    assert (end.ending, end.error, end.delay) == (Ending.FAILED, WRONG, 0.0)


def test_a_job_with_one_attempt_is_never_tried_again() -> None:
    assert build_failure(BROKE, attempt=1, max_attempts=1, retry=Retry()).ending is Ending.DEAD_LETTER


@given(st.integers(1, 50), st.integers(1, 50))
def test_a_failure_is_tried_again_exactly_while_attempts_are_left(attempt: int, most: int) -> None:
    end = build_failure(BROKE, attempt=attempt, max_attempts=most, retry=Retry())

    assert end.ending is (Ending.RETRY if attempt < most else Ending.DEAD_LETTER)


def test_only_success_and_a_refusal_that_asks_for_it_keep_what_the_handler_wrote() -> None:
    assert build_success("1").keeps_effects
    assert build_rejection(WRONG, keeps_effects=True).keeps_effects
    for end in (
        build_rejection(WRONG),
        build_failure(BROKE, attempt=1, max_attempts=2, retry=Retry()),
        build_cancellation(),
        build_release(),
    ):
        assert not end.keeps_effects


def test_being_cancelled_is_an_end_and_being_released_is_none() -> None:
    cancelled = build_cancellation()

    assert cancelled.ending is Ending.CANCELLED
    assert cancelled.error is not None
    assert cancelled.error.code == "JOB_CANCELLED"
    assert (build_release().ending, build_release().error, build_release().delay) == (Ending.RELEASE, None, 0.0)


def test_a_job_is_over_in_four_states_and_each_is_an_ending() -> None:
    over = {status for status in Status if status.is_over}

    assert over == set(Status) - {Status.QUEUED, Status.RUNNING}
    assert {ending.value for ending in Ending} == {status.value for status in over} | {"RETRY", "RELEASE"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"first_delay": -1},
        {"factor": 0.5},
        {"longest_delay": -1},
        {"longest_requested_delay": -1},
        {"jitter": -0.1},
        {"jitter": 1.1},
    ],
)
def test_a_plan_to_retry_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"attempts must be at least 1|delays must not be negative|jitter must be"):
        Retry(**wrong)  # type: ignore[arg-type]


def test_an_unknown_error_is_worth_another_try_and_a_refusal_says_so_itself() -> None:
    assert JobError.from_exception(ZeroDivisionError("by zero")).retryable
    assert JobError.from_exception(LeaseLost()).retryable
    assert not JobError.from_exception(InvalidInput("no")).retryable
