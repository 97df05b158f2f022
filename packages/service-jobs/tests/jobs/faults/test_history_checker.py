"""Specification of the checker: it finds nothing wrong with a good history, and each thing that can be wrong."""

from dataclasses import replace

import pytest
from tests.jobs.faults.execution_recorder import FINISHED, SETTLED, STARTED, RecordedEvent
from tests.jobs.faults.history_checker import Effect, History, Row, find_problems


def build_event(
    at: float, event: str, attempt: int = 1, status: str | None = None, *, job: str = "a", owner: str = "w"
) -> RecordedEvent:
    return RecordedEvent(event=event, job_id=job, type="plain", attempt=attempt, owner=owner, at=at, status=status)


def run(
    at: float, attempt: int = 1, *, job: str = "a", owner: str = "w", became: str | None = "SUCCEEDED"
) -> list[RecordedEvent]:
    ending = {"SUCCEEDED": "SUCCEEDED", "QUEUED": "RETRY", None: "SUCCEEDED"}[became]
    return [
        build_event(at, STARTED, attempt, job=job, owner=owner),
        build_event(at + 1, FINISHED, attempt, ending, job=job, owner=owner),
        build_event(at + 2, SETTLED, attempt, became, job=job, owner=owner),
    ]


GOOD = History(
    submitted=frozenset({"a", "b", "c"}),
    rows=[
        Row(job_id="a", attempts=2, effective=True, follows=1),
        Row(job_id="b", limit_key="narrow", parent="a"),
        Row(job_id="c", limit_key="narrow", needs="a"),
    ],
    lines=[
        *run(0, 1, became="QUEUED"),
        *run(10, 2),
        *run(20, job="b"),
        *run(30, job="c"),
    ],
    effects=[Effect(job_id="a", attempt=2, owner="w")],
    limits={"narrow": 1},
)


def test_a_good_history_has_no_problems() -> None:
    assert find_problems(GOOD) == []


def test_who_dies_between_commit_and_record_is_believed_by_what_the_database_holds() -> None:
    unseen = [said for said in GOOD.lines if not (said.event == SETTLED and said.attempt == 2)]

    assert find_problems(replace(GOOD, lines=unseen)) == []


def test_who_says_it_again_because_the_answer_was_lost_and_is_refused_did_nothing_wrong() -> None:
    assert find_problems(replace(GOOD, lines=[*GOOD.lines, build_event(40, SETTLED, 2, None)])) == []


def test_a_dead_letter_that_used_up_its_executions_is_an_end() -> None:
    row = Row(job_id="a", status="DEAD_LETTER", attempts=3, max_attempts=3)

    assert find_problems(History(submitted=frozenset("a"), rows=[row], lines=[])) == []
    assert find_problems(History(submitted=frozenset("a"), rows=[replace(row, attempts=2)], lines=[])) != []


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (replace(GOOD, submitted=GOOD.submitted | {"d"}), "d: was submitted and does not exist"),
        (replace(GOOD, left=["a lease of b"]), "left behind: a lease of b"),
        (replace(GOOD, lines=[*GOOD.lines, *run(50, job="z")]), "z: was run and does not exist"),
        (
            replace(GOOD, rows=[*GOOD.rows[:2], replace(GOOD.rows[2], status="QUEUED", attempts=0)]),
            "c: is QUEUED after 0 executions",
        ),
        (
            replace(GOOD, lines=[*GOOD.lines, build_event(40, SETTLED, 2, "SUCCEEDED", owner="v")]),
            "a: was ended 2 times, by executions [2, 2]",
        ),
        (
            replace(GOOD, lines=[*run(5, 1, owner="v"), *GOOD.lines[3:]]),
            "a: execution 1 was accepted although 2 had started",
        ),
        (
            replace(GOOD, rows=[replace(GOOD.rows[0], attempts=1), *GOOD.rows[1:]]),
            "a: execution 2 was started, but 1 ended the job",
        ),
        (
            replace(GOOD, lines=[*GOOD.lines, build_event(15, SETTLED, 2, "SUCCEEDED")]),
            "a: execution 2 was settled 2 times",
        ),
        (
            replace(GOOD, lines=[*GOOD.lines, build_event(15, SETTLED, 3, "QUEUED", owner="v")]),
            "a: execution 3 was accepted after 2 had ended the job",
        ),
        (replace(GOOD, effects=[]), "a: has 0 effects instead of 1"),
        (replace(GOOD, effects=[*GOOD.effects, *GOOD.effects]), "a: has 2 effects instead of 1"),
        (
            replace(GOOD, effects=[replace(GOOD.effects[0], attempt=1)]),
            "a: has an effect of execution 1, but 2 ended it",
        ),
        (replace(GOOD, effects=[replace(GOOD.effects[0], owner="v")]), "a: has an effect of v, but w ended it"),
        (
            replace(GOOD, effects=[*GOOD.effects, replace(GOOD.effects[0], job_id="b")]),
            "b: has 1 effects instead of 0",
        ),
        (
            replace(GOOD, effects=[*GOOD.effects, replace(GOOD.effects[0], job_id="z")]),
            "z: has effects and does not exist",
        ),
        (replace(GOOD, lines=GOOD.lines[:-3]), "c: succeeded by execution 1, which never started"),
        (
            replace(GOOD, lines=[*GOOD.lines[:-2], build_event(31, FINISHED, 1, "RETRY", job="c")]),
            "c: succeeded by execution 1, which did not finish well",
        ),
        (
            replace(GOOD, rows=[*GOOD.rows[:1], replace(GOOD.rows[1], parent=None), GOOD.rows[2]]),
            "a: job 0 should follow",
        ),
        (
            replace(GOOD, rows=[*GOOD.rows, replace(GOOD.rows[1], job_id="d")], lines=[*GOOD.lines, *run(50, job="d")]),
            "a: job 0 follows it 2 times",
        ),
        (replace(GOOD, rows=[replace(GOOD.rows[0], follows=0), *GOOD.rows[1:]]), "a: job 0 follows it and should not"),
        (
            replace(GOOD, lines=[*GOOD.lines[:6], *run(20.5, job="b"), *GOOD.lines[9:], *run(20.7, job="c")]),
            "limit narrow: 2 ran at the same time instead of 1",
        ),
        (
            replace(GOOD, lines=[*GOOD.lines[:-3], *run(10.5, job="c")]),
            "c: started before a, which it waits for, was finished",
        ),
    ],
)
def test_each_thing_that_is_wrong_is_found(bad: History, says: str) -> None:
    assert any(says in messages for messages in find_problems(bad)), find_problems(bad)


def test_no_more_than_allowed_means_of_those_that_were_accepted() -> None:
    refused = run(20.5, job="c", owner="v", became=None)

    assert find_problems(replace(GOOD, lines=[*GOOD.lines, *refused])) == []
