"""When a delivery is tried again, and when an endpoint is disabled."""

from datetime import UTC, datetime, timedelta

import pytest

from bpc.storage.webhooks.webhook_retries import (
    ATTEMPTS,
    FACTOR,
    FIRST_PAUSE_SECONDS,
    MIN_FAILED_ATTEMPTS,
    DeliveryPolicy,
)

FRIDAY = datetime(2027, 2, 19, 17, 0, tzinfo=UTC)


@pytest.mark.parametrize("hours", [0.001, 0.01, 1, 24, 72, 168, 720])
def test_all_pauses_together_last_as_long_as_is_set(hours: float) -> None:
    longest = DeliveryPolicy(retry_for=timedelta(hours=hours)).longest_pause_seconds

    pauses = [min(longest, FIRST_PAUSE_SECONDS * FACTOR**number) for number in range(ATTEMPTS - 1)]

    assert sum(pauses) == pytest.approx(hours * 3600)


def test_after_a_weekend_the_next_attempt_is_less_than_three_hours_away() -> None:
    assert timedelta(seconds=DeliveryPolicy().longest_pause_seconds * 1.2) < timedelta(hours=3.2)
    assert DeliveryPolicy().retry_for == timedelta(days=3)


def test_an_endpoint_is_persistent_in_failing_only_for_long_and_often() -> None:
    policy = DeliveryPolicy(disable_after=timedelta(hours=5))

    def is_persistent(hours: float, attempts: int) -> bool:
        return policy.is_persistent(FRIDAY, attempts, FRIDAY + timedelta(hours=hours))

    assert is_persistent(5, MIN_FAILED_ATTEMPTS)
    assert not is_persistent(4.99, 1000)
    assert not is_persistent(500, MIN_FAILED_ATTEMPTS - 1)
    never = DeliveryPolicy(disable_after=None)
    assert not never.is_persistent(FRIDAY, 10_000, FRIDAY + timedelta(days=365))
