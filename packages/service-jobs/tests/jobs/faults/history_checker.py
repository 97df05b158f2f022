"""The checker: what the recorder wrote, the jobs as they ended and their effects in; what is wrong out. Pure.

 1  every job that was submitted is there and over: SUCCEEDED, or DEAD_LETTER after all its executions
 2  nothing is left behind: no place in a queue, no lease, no taken slot, no unmet dependency
 3  a job has at most one accepted final settlement on record, of the execution that its row names
 4  no execution is accepted after a later one has started: the last to start is the one that ends the job
 5  no execution is settled twice
 6  a job with effects that succeeded has them once, of the execution that its row names; no other job has any
 7  a job that succeeded was started as the execution that its row names, and finished it well
 8  the jobs that follow are there, each once, for whoever succeeded, and for nobody else
 9  of the executions that were accepted, no more than allowed ran at the same time for one limit key
10  nobody starts before the job it waits for is finished

A settlement may be missing from the records, never be there too often: who is killed between commit and record says
nothing, and who lost the database's answer says it again and is refused. What the database holds is what counts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.jobs.faults.execution_recorder import FINISHED, SETTLED, STARTED, RecordedEvent

SUCCEEDED, DEAD_LETTER, QUEUED = "SUCCEEDED", "DEAD_LETTER", "QUEUED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job as it is in the database at the end, and what it should have done."""

    job_id: str
    status: str = SUCCEEDED
    attempts: int = 1
    max_attempts: int = 1_000
    effective: bool = False
    follows: int = 0
    parent: str | None = None
    nth: int = 0
    limit_key: str = ""
    needs: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What an execution wrote, and was committed."""

    job_id: str
    attempt: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything there is to judge by."""

    submitted: frozenset[str]
    rows: Sequence[Row]
    lines: Sequence[RecordedEvent]
    effects: Sequence[Effect] = ()
    left: Sequence[str] = ()
    limits: Mapping[str, int] = field(default_factory=dict)


def find_problems(history: History) -> list[str]:
    """Everything that is wrong, in words; nothing if all is well."""
    of_job: dict[str, list[RecordedEvent]] = defaultdict(list)
    for line in sorted(history.lines, key=lambda line: line.at):
        of_job[line.job_id].append(line)
    rows = {row.job_id: row for row in history.rows}
    messages = [*_find_missing(history, rows), *(f"left behind: {what}" for what in history.left)]
    messages += (f"{job_id}: was run and does not exist" for job_id in of_job if job_id not in rows)
    for row in history.rows:
        lines = of_job[row.job_id]
        messages += (
            f"{row.job_id}: {message}"
            for message in (*_check_end(row), *_check_settlements(row, lines), *_check_executions(row, lines))
        )
    messages += _check_effects(history.effects, rows, of_job)
    messages += _check_followers(rows)
    messages += _check_overlaps(history, of_job)
    messages += _check_early_starts(rows, of_job)
    return messages


def _find_missing(history: History, rows: Mapping[str, Row]) -> Iterator[str]:  # 1
    for job_id in sorted(history.submitted - rows.keys()):
        yield f"{job_id}: was submitted and does not exist"


def _check_end(row: Row) -> Iterator[str]:  # 1
    if row.status == DEAD_LETTER and row.attempts >= row.max_attempts:
        return
    if row.status != SUCCEEDED:
        yield f"is {row.status} after {row.attempts} executions"


def _check_settlements(row: Row, lines: Sequence[RecordedEvent]) -> Iterator[str]:
    accepted = [line for line in lines if line.event == SETTLED and line.status is not None]
    final = [line for line in accepted if line.status != QUEUED]
    if len(final) > 1:  # 3
        yield f"was ended {len(final)} times, by executions {[line.attempt for line in final]}"
    for line in final:  # 3
        if (line.status, line.attempt) != (row.status, row.attempts):
            yield f"execution {line.attempt} was told {line.status}, the row says {row.status} by {row.attempts}"
    for attempt, times in Counter(line.attempt for line in accepted).items():  # 5
        if times > 1:
            yield f"execution {attempt} was settled {times} times"
    for line in accepted:  # 4
        later = [other for other in lines if other.event == STARTED and other.attempt > line.attempt]
        if line.status != QUEUED and later:
            yield f"execution {line.attempt} was accepted although {later[0].attempt} had started"
    for before, after in pairwise(final and accepted):  # 4
        # An earlier execution that was put back may say so late: it was stopped between commit and record.
        if before.status != QUEUED and (after.status != QUEUED or after.attempt > before.attempt):
            yield f"execution {after.attempt} was accepted after {before.attempt} had ended the job"


def _check_executions(row: Row, lines: Sequence[RecordedEvent]) -> Iterator[str]:
    started = {line.attempt for line in lines if line.event == STARTED}
    if started and max(started) > row.attempts:  # 4
        yield f"execution {max(started)} was started, but {row.attempts} ended the job"
    if row.status != SUCCEEDED:
        return
    if row.attempts not in started:  # 7
        yield f"succeeded by execution {row.attempts}, which never started"
    well = {line.attempt for line in lines if line.event == FINISHED and line.status == SUCCEEDED}
    if row.attempts not in well:  # 7
        yield f"succeeded by execution {row.attempts}, which did not finish well"


def _check_effects(
    effects: Sequence[Effect], rows: Mapping[str, Row], of_job: Mapping[str, list[RecordedEvent]]
) -> Iterator[str]:  # 6
    by_job: dict[str, list[Effect]] = defaultdict(list)
    for effect in effects:
        by_job[effect.job_id].append(effect)
    for job_id in by_job.keys() - rows.keys():
        yield f"{job_id}: has effects and does not exist"
    for row in rows.values():
        actual = by_job[row.job_id]
        expected = int(row.effective and row.status == SUCCEEDED)
        if len(actual) != expected:
            yield f"{row.job_id}: has {len(actual)} effects instead of {expected}"
        for effect in actual:
            if effect.attempt != row.attempts:
                yield f"{row.job_id}: has an effect of execution {effect.attempt}, but {row.attempts} ended it"
            final = [line for line in of_job.get(row.job_id, ()) if line.event == SETTLED and line.status == SUCCEEDED]
            if any(line.owner != effect.owner for line in final):
                yield f"{row.job_id}: has an effect of {effect.owner}, but {final[0].owner} ended it"


def _check_followers(rows: Mapping[str, Row]) -> Iterator[str]:  # 8
    actual: Counter[tuple[str, int]] = Counter()
    for row in rows.values():
        if row.parent is not None:
            actual[row.parent, row.nth] += 1
    expected = {(row.job_id, nth) for row in rows.values() if row.status == SUCCEEDED for nth in range(row.follows)}
    for job_id, nth in sorted(expected - actual.keys()):
        yield f"{job_id}: job {nth} should follow it and does not"
    for (job_id, nth), times in actual.items():
        if (job_id, nth) not in expected:
            yield f"{job_id}: job {nth} follows it and should not"
        elif times > 1:
            yield f"{job_id}: job {nth} follows it {times} times"


def _check_overlaps(history: History, of_job: Mapping[str, list[RecordedEvent]]) -> Iterator[str]:  # 9
    steps: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for row in history.rows:
        if row.limit_key in history.limits:
            for start, end in _list_accepted_runs(row, of_job.get(row.job_id, ())):
                steps[row.limit_key] += [(start, 1), (end, -1)]
    for key, changes in steps.items():
        running = most = 0
        for _, change in sorted(changes):  # at the same moment, ends before starts
            running += change
            most = max(most, running)
        if most > history.limits[key]:
            yield f"limit {key}: {most} ran at the same time instead of {history.limits[key]}"


def _list_accepted_runs(row: Row, lines: Sequence[RecordedEvent]) -> Iterator[tuple[float, float]]:
    """When executions ran whose end was accepted. Their slot was theirs for at least as long."""
    accepted = {(line.attempt, line.owner) for line in lines if line.event == SETTLED and line.status is not None}
    started: dict[tuple[int, str], float] = {}
    for line in lines:
        run = (line.attempt, line.owner)
        if line.event == STARTED:
            started[run] = line.at
        elif line.event == FINISHED and run in started and run in accepted:
            yield started[run], line.at


def _check_early_starts(rows: Mapping[str, Row], of_job: Mapping[str, list[RecordedEvent]]) -> Iterator[str]:  # 10
    for row in rows.values():
        if row.needs is None or row.needs not in rows:
            continue
        dependency = rows[row.needs]
        finishes = [
            line.at
            for line in of_job.get(row.needs, ())
            if line.event == FINISHED and line.attempt == dependency.attempts and line.status == SUCCEEDED
        ]
        starts = [line.at for line in of_job.get(row.job_id, ()) if line.event == STARTED]
        if starts and (not finishes or min(starts) < min(finishes)):
            yield f"{row.job_id}: started before {row.needs}, which it waits for, was finished"
