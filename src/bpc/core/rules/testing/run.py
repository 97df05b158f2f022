"""Tests written in the rule language: a checked program and a seed in, a report out.

Pure. Tests run on the evaluator that compiles passports, and the same program with the same seed gives the same report
everywhere. Every case has its own counter of steps. What a test emits as compliance is dropped.

    Example ── expect, expectError ───────────────────────────────┐
    Property ── Cases (BPC-GEN-1) ── claims ── shrunk if it fails ┴─► TestReport
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from bpc.core.errors import Invalid
from bpc.core.rules.evaluating.evaluate import Machine
from bpc.core.rules.failure import MAX_STEPS
from bpc.core.rules.nearest import Suggestions
from bpc.core.rules.testing.coverage import Coverage
from bpc.core.rules.testing.examples import example_failures
from bpc.core.rules.testing.properties import TRIES_PER_CASE, RunningProperty
from bpc.core.rules.testing.reading import reading_of
from bpc.core.rules.testing.trial import Trial
from bpc.core.rules.testing.verdict import TestFailure, TestReport
from bpc.core.rules.typed import Example, Program, Property

Progress: TypeAlias = Callable[[int, int], None]
Chosen: TypeAlias = tuple[tuple[Example, ...], tuple[Property, ...]]


def run_tests(
    program: Program,
    *,
    seed: int,
    max_steps: int = MAX_STEPS,
    only: str | None = None,
    case: int | None = None,
    progress: Progress | None = None,
) -> TestReport:
    """Run every test, or the one called `only`, of which `case` picks a single case.

    `progress` is told how many of the cases that count are done, of how many.
    """
    examples, properties = _chosen(program, only, case)
    total = len(examples) + (sum(of.cases for of in properties) if case is None else len(properties))
    trial = Trial(program, Machine(program), max_steps, reading_of(program))
    tally = _Tally(total, progress)
    for example in examples:
        tally.count(*example_failures(trial, example))
    for of in properties:
        running = RunningProperty(trial, of, seed)
        if case is None:
            _run(running, of.cases, tally)
        else:
            tally.outcome(running.outcome(case))
    return TestReport(
        passed=tally.passed,
        failed=tally.failed,
        discarded=tally.discarded,
        failures=tuple(tally.failures),
        coverage=Coverage(program.source, trial.machine.sites, frozenset(trial.reached)),
    )


def _run(running: RunningProperty, wanted: int, tally: "_Tally") -> None:
    """Its cases in turn, until enough of them count, one fails or there are no more tries."""
    counted = 0
    for number in range(TRIES_PER_CASE * wanted):
        outcome = running.outcome(number)
        tally.outcome(outcome)
        if isinstance(outcome, TestFailure):
            return
        counted += outcome
        if counted == wanted:
            return
    tally.count(running.too_few(counted))


@dataclass(slots=True)
class _Tally:
    """The counts of a run so far."""

    total: int
    progress: Progress | None
    passed: int = 0
    failed: int = 0
    discarded: int = 0
    failures: list[TestFailure] = field(default_factory=list)

    def outcome(self, found: TestFailure | bool) -> None:
        if isinstance(found, TestFailure):
            self.count(found)
        elif found:
            self.count()
        else:
            self.discarded += 1

    def count(self, *found: TestFailure) -> None:
        """One more case that counts, and what is wrong with it."""
        self.failures += found
        if found:
            self.failed += 1
        else:
            self.passed += 1
        if self.progress is not None:
            self.progress(self.passed + self.failed, self.total)


def _chosen(program: Program, only: str | None, case: int | None) -> Chosen:
    if only is None:
        if case is not None:
            raise Invalid("a case belongs to a property", fix="name the property with --only")
        return program.examples, program.properties
    examples = tuple(example for example in program.examples if example.name == only)
    properties = tuple(of for of in program.properties if of.name == only)
    if not examples and not properties:
        names = [*(example.name for example in program.examples), *(of.name for of in program.properties)]
        raise Invalid(f"there is no test called `{only}`", fix=Suggestions().help(only, names))
    if case is not None:
        _refuse_wrong_case(properties, only, case)
    return examples, properties


def _refuse_wrong_case(properties: tuple[Property, ...], only: str, case: int) -> None:
    if not properties:
        raise Invalid(f"`{only}` is an example, which is a single case", fix="leave out --case")
    tries = TRIES_PER_CASE * properties[0].cases
    if not 0 <= case < tries:
        raise Invalid(f"`{only}` has no case {case}: its cases are numbered from 0 to {tries - 1}")
