"""Specification of whose turn it is: tenants take turns, priorities hold inside a tenant, nothing is overlooked."""

from collections.abc import Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from service_jobs.worker.lanes import BEHIND_SECONDS, MAX_LANES_PER_CLAIM, MAX_REMEMBERED_LANES, QUANTUM, Lane, LaneRing

A, B, C, D = (UUID(int=number) for number in (0xA, 0xB, 0xC, 0xD))
TENANTS = st.sampled_from([A, B, C, D])
KEYS = st.sampled_from(["", "", "press", "oven"])
PRIORITIES = st.integers(0, 3)
LANES = st.lists(st.tuples(TENANTS, KEYS, PRIORITIES), min_size=1, max_size=12, unique=True)
ROOM = st.integers(1, 40)
LATER = BEHIND_SECONDS * 2

LaneTuple = tuple[UUID, str, int]
PickResult = tuple[list[tuple[Lane, int]], list[tuple[Lane, int]]]


def build_ring(ready_lanes: Sequence[LaneTuple], first: UUID | None = None) -> LaneRing:
    lanes = LaneRing(first)
    for lane in ready_lanes:
        lanes.mark_ready(*lane)
    return lanes


def list_picks(picked: PickResult) -> list[tuple[Lane, int]]:
    return [*picked[0], *picked[1]]


def list_tenants(picked: PickResult) -> list[UUID]:
    return [lane.tenant for lane, _ in list_picks(picked)]


# Whose turn --------------------------------------------------------------------------------------------------------


def test_tenants_take_turns() -> None:
    lanes = build_ring([(C, "", 2), (B, "", 2), (A, "", 2)])

    assert [list_tenants(lanes.pick_lanes(1, 0.0)) for _ in range(6)] == [[A], [B], [C], [A], [B], [C]]


def test_a_tenant_that_had_nothing_goes_to_the_front() -> None:
    lanes = build_ring([(B, "", 2), (A, "", 2)])
    lanes.pick_lanes(1, 0.0)

    lanes.mark_ready(C, "", 2)

    assert list_tenants(lanes.pick_lanes(1, 0.0)) == [C]
    assert list_tenants(lanes.pick_lanes(1, 0.0)) == [B]


def test_the_first_tenant_goes_first_whenever_it_has_something() -> None:
    lanes = build_ring([(C, "", 0), (B, "", 0), (A, "", 3)], first=A)

    assert [list_tenants(lanes.pick_lanes(1, 0.0)) for _ in range(4)] == [[A], [A], [A], [A]]
    [(lane, requested)], _ = lanes.pick_lanes(QUANTUM, 0.0)
    lanes.record_claim(lane, requested, [], 0.0)
    assert A not in list_tenants(lanes.pick_lanes(100, 0.0))


def test_room_is_shared_among_all_who_have_something() -> None:
    plain, limited = build_ring([(C, "", 2), (B, "", 2), (A, "", 2)]).pick_lanes(60, 0.0)

    assert [(lane.tenant, most) for lane, most in plain] == [(A, 20), (B, 20), (C, 20)]
    assert limited == []


def test_one_tenant_alone_gets_all_the_room() -> None:
    plain, _ = build_ring([(A, "", 2)]).pick_lanes(100, 0.0)

    assert [most for _, most in plain] == [100]


def test_no_room_and_no_lanes_mean_no_picks() -> None:
    assert build_ring([(A, "", 2)]).pick_lanes(0, 0.0) == ([], [])
    assert build_ring([(A, "", 2)]).pick_lanes(-3, 0.0) == ([], [])
    assert LaneRing().pick_lanes(10, 0.0) == ([], [])
    assert LaneRing(first=A).pick_lanes(10, 0.0) == ([], [])


def test_a_thousand_tenants_are_served_a_hundred_at_a_time() -> None:
    everybody = [UUID(int=number) for number in range(1, 1001)]
    lanes = build_ring([(tenant, "", 2) for tenant in everybody])

    rounds = [list_tenants(lanes.pick_lanes(1000, 0.0)) for _ in range(10)]

    assert {len(one) for one in rounds} == {MAX_LANES_PER_CLAIM}
    assert sorted(tenant for one in rounds for tenant in one) == everybody


def test_keys_of_one_tenant_take_turns_and_do_not_keep_its_other_jobs_waiting() -> None:
    lanes = build_ring([(A, "press", 2), (A, "", 2), (A, "oven", 2)])

    keys = [lane.limit_key for _ in range(3) for lane, _ in list_picks(lanes.pick_lanes(1, 0.0))]

    assert sorted(keys) == ["", "oven", "press"]


@given(LANES, ROOM, st.integers(1, 10))
def test_whoever_has_something_is_served_within_as_many_picks_as_there_are_tenants(
    ready_lanes: list[LaneTuple], room: int, before: int
) -> None:
    lanes = build_ring(ready_lanes)
    waiting = {lane[0] for lane in ready_lanes}
    for _ in range(before):
        assert lanes.pick_lanes(room, 0.0) != ([], []), "there was room, and somebody had something"

    assert {tenant for _ in waiting for tenant in list_tenants(lanes.pick_lanes(room, 0.0))} == waiting


@given(LANES, ROOM)
def test_nobody_is_served_twice_in_a_pick_before_everybody_was_served_once(
    ready_lanes: list[LaneTuple], room: int
) -> None:
    served = list_tenants(build_ring(ready_lanes).pick_lanes(room, 0.0))

    assert set(served) == {lane[0] for lane in ready_lanes} or len(set(served)) == len(served)


@given(LANES, ROOM, st.none() | TENANTS)
def test_no_more_is_asked_for_than_there_is_room_and_each_lane_is_asked_once(
    ready_lanes: list[LaneTuple], room: int, first: UUID | None
) -> None:
    picked = build_ring(ready_lanes, first).pick_lanes(room, 0.0)

    assert sum(most for _, most in list_picks(picked)) <= room
    assert all(most >= 1 for _, most in list_picks(picked))
    assert len({id(lane) for lane, _ in list_picks(picked)}) == len(list_picks(picked))
    assert all(not lane.limit_key for lane, _ in picked[0])
    assert all(lane.limit_key and most <= QUANTUM for lane, most in picked[1])


@given(LANES, ROOM)
def test_inside_a_tenant_only_its_most_urgent_lanes_are_picked(ready_lanes: list[LaneTuple], room: int) -> None:
    most_urgent = {tenant: min(p for t, _, p in ready_lanes if t == tenant) for tenant, _, _ in ready_lanes}

    for lane, _ in list_picks(build_ring(ready_lanes).pick_lanes(room, 0.0)):
        assert lane.priority == most_urgent[lane.tenant]


@given(LANES, ROOM)
def test_a_limited_key_is_picked_once_at_most_or_its_slots_would_be_counted_twice(
    ready_lanes: list[LaneTuple], room: int
) -> None:
    _, limited = build_ring(ready_lanes).pick_lanes(room, 0.0)

    keys = [(lane.tenant, lane.limit_key) for lane, _ in limited]
    assert len(set(keys)) == len(keys)


@given(LANES, TENANTS, ROOM)
def test_the_first_tenant_is_always_among_those_picked_if_it_has_something(
    ready_lanes: list[LaneTuple], first: UUID, room: int
) -> None:
    lanes = build_ring(ready_lanes, first)
    for _ in range(3):
        served = list_tenants(lanes.pick_lanes(room, 0.0))
        assert (first in {lane[0] for lane in ready_lanes}) == (served[0] == first or first in served)


@given(st.dictionaries(st.tuples(TENANTS, KEYS, PRIORITIES), st.integers(1, 30), min_size=1), ROOM)
def test_whatever_is_there_is_asked_for_until_nothing_is_left(jobs: dict[LaneTuple, int], room: int) -> None:
    """A worker that always takes what it asked for, from lanes that nobody adds to."""
    lanes = build_ring(list(jobs))
    left = dict(jobs)
    for _ in range(sum(jobs.values()) + len(jobs) + 1):
        for lane, requested in list_picks(lanes.pick_lanes(room, 0.0)):
            key = (lane.tenant, lane.limit_key, lane.priority)
            taken = min(requested, left[key])
            left[key] -= taken
            lanes.record_claim(lane, requested, range(1, taken + 1), 0.0)

    assert set(left.values()) == {0}
    assert len(lanes) == 0


# What rests --------------------------------------------------------------------------------------------------------


def test_a_lane_that_gave_less_than_asked_rests_until_something_is_found_in_it() -> None:
    lanes = build_ring([(A, "", 2)])
    [(lane, requested)], _ = lanes.pick_lanes(10, 0.0)

    lanes.record_claim(lane, requested, range(1, 10), 0.0)
    assert (len(lanes), lanes.pick_lanes(10, 0.0)) == (0, ([], []))

    lanes.mark_ready(A, "", 2)
    assert [picked for picked, _ in lanes.pick_lanes(10, 0.0)[0]] == [lane]


def test_a_lane_that_gave_all_that_was_asked_goes_on() -> None:
    lanes = build_ring([(A, "", 2)])
    [(lane, requested)], _ = lanes.pick_lanes(10, 0.0)

    lanes.record_claim(lane, requested, range(1, 11), 0.0)

    assert len(lanes) == 1


def test_when_the_urgent_lane_rests_the_next_one_is_picked() -> None:
    lanes = build_ring([(A, "", 2), (A, "", 0)])
    [(urgent, requested)], _ = lanes.pick_lanes(10, 0.0)
    lanes.record_claim(urgent, requested, [], 0.0)

    [(lane, _)], _ = lanes.pick_lanes(10, 0.0)

    assert (urgent.priority, lane.priority) == (0, 2)


def test_to_hear_of_a_lane_twice_or_that_it_gave_nothing_twice_changes_nothing() -> None:
    lanes = build_ring([(A, "", 2), (A, "", 2)])
    assert len(lanes) == 1
    [(lane, requested)], _ = lanes.pick_lanes(10, 0.0)

    lanes.record_claim(lane, requested, [], 0.0)
    lanes.record_claim(lane, requested, [], 0.0)

    assert len(lanes) == 0


def test_lanes_that_rest_are_forgotten_when_there_are_too_many_and_come_back_searched_from_the_start() -> None:
    lanes = LaneRing()
    for number in range(MAX_REMEMBERED_LANES):
        lanes.mark_ready(A, f"key{number}", 2)
    while len(lanes):
        for lane, requested in list_picks(lanes.pick_lanes(100_000, 0.0)):
            lanes.record_claim(lane, requested, [], 0.0)

    lanes.mark_ready(B, "", 2)
    lanes.mark_ready(A, "key0", 2)

    assert len(lanes) == 2
    assert {lane.above for lane, _ in list_picks(lanes.pick_lanes(100, LATER))} == {0}


# Where to look -----------------------------------------------------------------------------------------------------


def test_a_lane_is_searched_above_what_was_claimed_a_while_ago() -> None:
    lane = Lane(A, "", 2)
    lane.mark_claimed(10, now=0.0)
    lane.mark_claimed(20, now=1.0)

    lane.advance(now=1.0)
    assert lane.above == 10
    lane.advance(now=1.0 + LATER)
    assert lane.above == 20


def test_what_was_claimed_just_now_may_have_been_overtaken_so_the_lane_is_searched_below_it() -> None:
    lane = Lane(A, "", 2)
    lane.mark_claimed(10, now=0.0)

    lane.advance(now=BEHIND_SECONDS / 2)

    assert lane.above == 0


def test_what_committed_late_is_found_again() -> None:
    lane = Lane(A, "", 2)
    lane.mark_claimed(10, now=0.0)
    lane.advance(now=LATER)

    lane.lower_start(7)

    assert lane.above < 7


def test_the_mark_does_not_go_back_by_itself() -> None:
    lane = Lane(A, "", 2)
    lane.mark_claimed(20, now=0.0)
    lane.mark_claimed(10, now=0.1)

    lane.advance(now=1.0)

    assert lane.above == 20


STORY = st.lists(st.tuples(st.sampled_from(["claimed", "found", "passes"]), st.integers(1, 20)), max_size=30)


@given(STORY)
def test_the_mark_never_passes_a_job_that_was_found_and_not_claimed_since(story: list[tuple[str, int]]) -> None:
    lane = Lane(A, "", 2)
    now, open_at = 0.0, None
    for event, number in story:
        match event:
            case "claimed":  # everything from the lane's start up to there
                if open_at is not None and number >= open_at:
                    open_at = None
                if open_at is None:
                    lane.mark_claimed(number, now)
            case "found":
                lane.lower_start(number)
                open_at = number
            case _:
                now += number * BEHIND_SECONDS
                lane.advance(now)
        assert open_at is None or lane.above < open_at
