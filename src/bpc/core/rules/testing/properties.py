"""Running a property: a case's number in, whether it holds there out; a case that fails is shrunk and reported.

Pure. All claims of a property see the facts of one case. A case is discarded if no premise holds there; a premise whose
rules give no value (an `assert` or `requireSome` that fails) does not hold. Every other error fails the case.
"""

from typing import Final, NamedTuple

from bpc.core.facts import FactInvalid, SnapshotFact
from bpc.core.rules.evaluating.evaluate import Expression, Session
from bpc.core.rules.failure import AssertionFailed, RuleFailure
from bpc.core.rules.testing.case import Case
from bpc.core.rules.testing.generation import Cases, payload
from bpc.core.rules.testing.shrinking import shrunk_case
from bpc.core.rules.testing.trial import Trial, snapshot_fact
from bpc.core.rules.testing.verdict import FailedCase, TestFailure, Variable, command_for, rule_code
from bpc.core.rules.typed import Property

TRIES_PER_CASE: Final = 10
# Shrinking a case that takes long must not take five hundred times as long.
SHRINKING_STEPS: Final = 2_000_000


class _Claim(NamedTuple):
    variable: str
    premise: Expression
    conclusion: Expression


class _Wrong(NamedTuple):
    """Which claim failed on which side; by which error, if it was not simply false."""

    claim: int
    side: str
    failure: RuleFailure | None

    @property
    def way(self) -> tuple[object, ...]:
        """What a shrunk case must share with the one it comes from."""
        return self.claim, self.side, self.failure and (self.failure.code, rule_code(self.failure))

    @property
    def says(self) -> str:
        return f"the {self.side} " + ("is false" if self.failure is None else f"has no value: {self.failure.says}")


class RunningProperty:
    """A property in a run: its claims compiled once, its cases drawn as they are asked for."""

    def __init__(self, trial: Trial, of: Property, seed: int) -> None:
        self._trial = trial
        self._of = of
        self._seed = seed
        self._cases = Cases(of, seed, trial.reading.members)
        self._claims = [
            _Claim(
                claim.variable,
                trial.machine.expression(claim.premise, (claim.variable,)),
                trial.machine.expression(claim.conclusion, (claim.variable,)),
            )
            for claim in of.claims
        ]

    def outcome(self, number: int) -> TestFailure | bool:
        """True if the case holds, False if it is discarded, else what is wrong."""
        case = self._cases.case(number)
        try:
            world = self._trial.world(self._of.given, self._facts(case))
        except FactInvalid as invalid:
            return self._unreadable(invalid)
        session = self._trial.session(world)
        counts, wrong = self._claimed(session, case)
        if counts:
            self._trial.counts(session)
        return counts if wrong is None else self._failure(case, wrong)

    def too_few(self, counted: int) -> TestFailure:
        """What is wrong with a property whose premises hardly ever hold."""
        return TestFailure(
            test=self._of.name,
            kind="property",
            says=f"the premises held in {counted} of {TRIES_PER_CASE * self._of.cases} tries, and the property asks "
            f"for {self._of.cases} cases: write a premise that holds more often",
            source=self._of.source,
            span=self._of.span,
        )

    def _unreadable(self, invalid: FactInvalid) -> TestFailure:
        return TestFailure(
            test=self._of.name,
            kind="property",
            says=f"the facts cannot be read: {invalid.says}",
            source=self._of.source,
            span=self._of.span,
            error=self._trial.error(invalid, self._of.source),
        )

    def _facts(self, case: Case) -> list[SnapshotFact]:
        drawn = iter(case.facts)
        return [
            snapshot_fact(given, payload(given.fact, next(drawn)) if given.payload is None else given.payload)
            for given in self._of.given.facts
        ]

    def _claimed(self, session: Session, case: Case) -> tuple[bool, _Wrong | None]:
        """Whether the case counts, and the first claim that is wrong."""
        counts = False
        for number in range(len(self._claims)):
            applies, wrong = self._judged(number, session, case)
            if wrong is not None:
                return True, wrong
            counts = counts or applies
        return counts, None

    def _judged(self, number: int, session: Session, case: Case) -> tuple[bool, _Wrong | None]:
        """Whether a claim says something about a case, and what is wrong if it does not hold there."""
        claim = self._claims[number]
        variables = {claim.variable: case.variables[number]}
        try:
            applies = bool(session.run(claim.premise, variables))
        except AssertionFailed:
            return False, None
        except RuleFailure as failure:
            return True, _Wrong(number, "premise", failure)
        if not applies:
            return False, None
        try:
            holds = bool(session.run(claim.conclusion, variables))
        except RuleFailure as failure:
            return True, _Wrong(number, "conclusion", failure)
        return True, None if holds else _Wrong(number, "conclusion", None)

    def _failure(self, case: Case, wrong: _Wrong) -> TestFailure:
        of = self._of
        return TestFailure(
            test=of.name,
            kind="property",
            says=f"case {case.number}: {wrong.says}",
            source=of.source,
            span=of.claims[wrong.claim].span,
            error=None if wrong.failure is None else self._trial.error(wrong.failure, of.source),
            case=self._failed(self._shrunk(case, wrong), wrong.claim),
        )

    def _shrunk(self, case: Case, wrong: _Wrong) -> Case:
        left = SHRINKING_STEPS

        def fails(candidate: Case) -> bool:
            nonlocal left
            if left <= 0:
                return False
            session = self._trial.session(self._trial.world(self._of.given, self._facts(candidate)))
            _, found = self._judged(wrong.claim, session, candidate)
            left -= session.steps
            return found is not None and found.way == wrong.way

        return shrunk_case(self._of, case, wrong.claim, fails)

    def _failed(self, case: Case, number: int) -> FailedCase:
        claim = self._of.claims[number]
        rules, tests = self._trial.program.source, self._of.source
        return FailedCase(
            number=case.number,
            facts=tuple(self._facts(case)),
            variable=Variable(claim.variable, claim.type, case.variables[number]),
            command=command_for(rules, tests, seed=self._seed, test=self._of.name, case=case.number),
        )
