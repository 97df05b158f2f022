"""Specification of who is dead: what has been seen unchanged for long enough, on our own clock."""

from hypothesis import given
from hypothesis import strategies as st
from service_jobs.worker.maintenance import (
    DEAD_AFTER_SECONDS,
    DEAD_WITHOUT_LOCK_SECONDS,
    SECOND_LOOK_SECONDS,
    UnchangedTracker,
)

WORKERS = st.sampled_from(["w1", "w2", "w3"])
BEATS = st.integers(0, 3)
# Each look: what was seen of each worker, how much time had passed, and whether our view had been interrupted before.
LOOKS = st.lists(st.tuples(st.dictionaries(WORKERS, BEATS), st.integers(0, 5), st.booleans()), max_size=20)


def test_what_is_seen_for_the_first_time_has_been_unchanged_for_no_time() -> None:
    assert UnchangedTracker[str]().observe(["w1 at noon"], now=1000.0) == {"w1 at noon": 0.0}


def test_what_stays_as_it_is_grows_older_from_when_it_was_first_seen() -> None:
    workers = UnchangedTracker[tuple[str, int]]()
    workers.observe([("w1", 5), ("w2", 7)], now=10.0)

    assert workers.observe([("w1", 5), ("w2", 8)], now=13.0) == {("w1", 5): 3.0, ("w2", 8): 0.0}
    assert workers.observe([("w1", 5), ("w2", 8)], now=14.5) == {("w1", 5): 4.5, ("w2", 8): 1.5}


def test_what_disappears_and_comes_back_starts_anew() -> None:
    workers = UnchangedTracker[str]()
    workers.observe(["w1"], now=0.0)
    workers.observe([], now=1.0)

    assert workers.observe(["w1"], now=9.0) == {"w1": 0.0}


def test_after_our_own_view_was_interrupted_nobody_is_dead_yet() -> None:
    workers = UnchangedTracker[str]()
    workers.observe(["w1"], now=0.0)
    workers.reset()

    assert workers.observe(["w1"], now=1000.0) == {"w1": 0.0}


def test_a_worker_that_holds_no_lock_is_given_more_time_and_a_lease_is_looked_at_twice() -> None:
    assert 0 < SECOND_LOOK_SECONDS < DEAD_AFTER_SECONDS < DEAD_WITHOUT_LOCK_SECONDS


@given(LOOKS)
def test_a_thing_is_as_old_as_the_unbroken_row_of_looks_that_saw_it(
    looks: list[tuple[dict[str, int], int, bool]],
) -> None:
    workers = UnchangedTracker[tuple[str, int]]()
    first_seen: dict[tuple[str, int], int] = {}
    now = 0

    for items, seconds, interrupted in looks:
        now += seconds
        if interrupted:
            workers.reset()
            first_seen = {}
        first_seen = {thing: first_seen.get(thing, now) for thing in items.items()}

        assert workers.observe(items.items(), now) == {thing: now - since for thing, since in first_seen.items()}
