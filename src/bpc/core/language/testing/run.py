"""Run the tests of a rule package: a checked program and a seed in, a report out.

Pure. Tests run on the evaluator that compiles passports. The same program with the same seed gives the same report on
every machine. Every case has its own counter of steps. Compliance entries of a test are dropped.

All claims of a property see the facts of one case. A case is discarded if no premise holds there; a premise whose rules
give no value (an `assert` or `requireSome` that fails) does not hold. Every other error fails the case.

    Example ── expect, expectError ───────────────────────────────┐
    Property ── Cases (BPC-GEN-1) ── claims ── shrunk if it fails ┴─► TestReport
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import FactInvalid, SnapshotFact
from bpc.core.language.evaluating.machine import CompiledExpression, Machine, Session
from bpc.core.language.evaluating.values import format_as_literal
from bpc.core.language.evaluation import MAX_STEPS, AssertionFailed, RuleFailure, World
from bpc.core.language.reference.values import compare
from bpc.core.language.suggestions import Suggestions
from bpc.core.language.testing.generation import Case, CaseGenerator, build_payload, collect_fact_usage
from bpc.core.language.testing.report import (
    Coverage,
    FailedCase,
    RunContext,
    TestFailure,
    TestReport,
    VariableValue,
    build_snapshot_fact,
    format_command,
    get_rule_code,
)
from bpc.core.language.testing.shrinking import shrink_case
from bpc.core.language.typed import Program, TypedErrorExpectation, TypedExample, TypedExpectation, TypedProperty

MAX_NAMED_FIELDS: Final = 3  # fields named in a message; it gives the number of the others

TRIES_PER_CASE: Final = 10
# Shrinking a case that takes long must not take five hundred times as long.
SHRINKING_STEPS: Final = 2_000_000

_UNREADABLE_FACTS: Final = "the facts cannot be read"


class _CaseOutcome(NamedTuple):
    """Whether a case counts, whether it evaluates a field of the rules, and what is wrong with it."""

    counts: bool
    evaluates_field: bool
    failures: Sequence[TestFailure] = ()


def _run_example(context: RunContext, example: TypedExample) -> _CaseOutcome:
    """Run an example; every expectation that is not met is a failure, in the order of the text."""
    facts = [build_snapshot_fact(fixture, fixture.payload or {}) for fixture in example.fixtures.facts]
    try:
        world = context.build_world(example.fixtures, facts)
    except FactInvalid as invalid:
        failures = _report_unreadable_facts(context, example, invalid)
        return _CaseOutcome(counts=True, evaluates_field=False, failures=failures)
    session = context.open_session(world)
    outcomes = [
        _check_expectation(context, example, expectation, session)
        if isinstance(expectation, TypedExpectation)
        else _check_expected_error(context, example, expectation, world)
        for expectation in example.expectations
    ]
    context.record_reached(session)
    failures = [failure for failure in outcomes if failure is not None]
    # Every expectation evaluates the field it names, or all of them until one fails.
    return _CaseOutcome(counts=True, evaluates_field=bool(outcomes), failures=failures)


def _report_unreadable_facts(context: RunContext, example: TypedExample, invalid: FactInvalid) -> list[TestFailure]:
    """Facts that do not fit their schema stop a compilation before any field, so every field fails with their code."""
    return [
        context.build_failure(example, expectation.span, f"{_UNREADABLE_FACTS}: {invalid.says}", invalid)
        for expectation in example.expectations
        if not (isinstance(expectation, TypedErrorExpectation) and expectation.code == invalid.code)
    ]


def _check_expectation(
    context: RunContext, example: TypedExample, expectation: TypedExpectation, session: Session
) -> TestFailure | None:
    try:
        value = session.compute_field(expectation.path)
    except RuleFailure as failure:
        says = f"`{expectation.path}` has no value: {failure.says}"
        return context.build_failure(example, expectation.span, says, failure)
    kind = next(field.type for field in context.program.fields if field.path == expectation.path)
    constant = expectation.constant
    if compare(expectation.op, (kind, value), (constant.type, constant.value)):
        return None
    expected = f"{expectation.op} {format_as_literal(constant.type, constant.value)}"
    says = f"`{expectation.path}` is `{format_as_literal(kind, value)}`, expected `{expected}`"
    return context.build_failure(example, expectation.span, says)


def _check_expected_error(
    context: RunContext, example: TypedExample, expectation: TypedErrorExpectation, world: World
) -> TestFailure | None:
    other_codes: dict[str, str] = {}
    for path in (program_field.path for program_field in context.program.fields):
        session = context.open_session(world)
        try:
            session.compute_field(path)
        except RuleFailure as failure:
            if expectation.code in {failure.code, get_rule_code(failure)}:
                context.record_reached(session)
                return None
            other_codes[path] = get_rule_code(failure) or failure.code
    says = f"expected the error `{expectation.code}`, but {_describe_other_errors(other_codes)}"
    return context.build_failure(example, expectation.span, says)


def _describe_other_errors(other_codes: Mapping[str, str]) -> str:
    if not other_codes:
        return "no field failed"
    named = [f"`{path}` with `{code}`" for path, code in other_codes.items()][:MAX_NAMED_FIELDS]
    more = f" and {len(other_codes) - MAX_NAMED_FIELDS} more" if len(other_codes) > MAX_NAMED_FIELDS else ""
    return f"the fields failed differently: {', '.join(named)}{more}"


# Properties


class _CompiledClaim(NamedTuple):
    variable: str
    premise: CompiledExpression
    conclusion: CompiledExpression


class _ClaimFailure(NamedTuple):
    """Which claim failed on which side; by which error, if it was not simply false."""

    claim: int
    side: str
    failure: RuleFailure | None

    @property
    def signature(self) -> tuple[object, ...]:
        """What a shrunk case must share with the one it comes from."""
        return self.claim, self.side, self.failure and (self.failure.code, get_rule_code(self.failure))

    @property
    def says(self) -> str:
        return f"the {self.side} " + ("is false" if self.failure is None else f"has no value: {self.failure.says}")


class _PropertyRunner:
    """A property in a run: its claims compiled once, its cases drawn as they are asked for."""

    def __init__(self, context: RunContext, prop: TypedProperty, seed: int) -> None:
        self._context = context
        self._property = prop
        self._seed = seed
        self._cases = CaseGenerator(prop, seed, context.fact_usage.members)
        self._claims = [
            _CompiledClaim(
                claim.variable,
                context.machine.compile_expression(claim.premise, (claim.variable,)),
                context.machine.compile_expression(claim.conclusion, (claim.variable,)),
            )
            for claim in prop.claims
        ]

    def run_case(self, number: int) -> _CaseOutcome:
        """Run one case. It does not count if no premise holds."""
        case = self._cases.draw_case(number)
        try:
            world = self._context.build_world(self._property.fixtures, self._build_facts(case))
        except FactInvalid as invalid:
            says = f"{_UNREADABLE_FACTS}: {invalid.says}"
            failure = self._context.build_failure(self._property, self._property.span, says, invalid)
            return _CaseOutcome(counts=True, evaluates_field=False, failures=[failure])
        session = self._context.open_session(world)
        counts, claim_failure = self._check_claims(session, case)
        if counts:
            self._context.record_reached(session)
        failures = [] if claim_failure is None else [self._build_failure(case, claim_failure)]
        return _CaseOutcome(counts=counts, evaluates_field=session.has_evaluated_field, failures=failures)

    def build_too_few_failure(self, counted: int) -> TestFailure:
        """What is wrong with a property whose premises hardly ever hold."""
        prop = self._property
        says = (
            f"the premises held in {counted} of {TRIES_PER_CASE * prop.cases} tries, but the property "
            f"needs {prop.cases} cases: write a premise that holds more often"
        )
        return self._context.build_failure(prop, prop.span, says)

    def _build_facts(self, case: Case) -> list[SnapshotFact]:
        drawn_facts = iter(case.facts)
        return [
            build_snapshot_fact(
                fixture,
                build_payload(fixture.fact, next(drawn_facts)) if fixture.payload is None else fixture.payload,
            )
            for fixture in self._property.fixtures.facts
        ]

    def _check_claims(self, session: Session, case: Case) -> tuple[bool, _ClaimFailure | None]:
        """Whether the case counts, and the first claim that is wrong."""
        counts = False
        for number in range(len(self._claims)):
            applies, claim_failure = self._check_claim(number, session, case)
            if claim_failure is not None:
                return True, claim_failure
            counts = counts or applies
        return counts, None

    def _check_claim(self, number: int, session: Session, case: Case) -> tuple[bool, _ClaimFailure | None]:
        """Whether a claim says something about a case, and what is wrong if it does not hold there."""
        claim = self._claims[number]
        variables = {claim.variable: case.variables[number]}
        try:
            applies = bool(session.run(claim.premise, variables))
        except AssertionFailed:
            return False, None
        except RuleFailure as failure:
            return True, _ClaimFailure(number, "premise", failure)
        if not applies:
            return False, None
        try:
            holds = bool(session.run(claim.conclusion, variables))
        except RuleFailure as failure:
            return True, _ClaimFailure(number, "conclusion", failure)
        return True, None if holds else _ClaimFailure(number, "conclusion", None)

    def _build_failure(self, case: Case, claim_failure: _ClaimFailure) -> TestFailure:
        span = self._property.claims[claim_failure.claim].span
        says = f"case {case.number}: {claim_failure.says}"
        failed_case = self._build_failed_case(self._shrink(case, claim_failure), claim_failure.claim)
        return self._context.build_failure(self._property, span, says, claim_failure.failure, failed_case)

    def _shrink(self, case: Case, claim_failure: _ClaimFailure) -> Case:
        steps_left = SHRINKING_STEPS

        def fails(candidate: Case) -> bool:
            nonlocal steps_left
            if steps_left <= 0:
                return False
            session = self._context.open_session(
                self._context.build_world(self._property.fixtures, self._build_facts(candidate))
            )
            _, candidate_failure = self._check_claim(claim_failure.claim, session, candidate)
            steps_left -= session.steps
            return candidate_failure is not None and candidate_failure.signature == claim_failure.signature

        return shrink_case(self._property, case, claim_failure.claim, fails)

    def _build_failed_case(self, case: Case, number: int) -> FailedCase:
        claim = self._property.claims[number]
        rules, tests = self._context.program.source, self._property.source
        return FailedCase(
            number=case.number,
            facts=tuple(self._build_facts(case)),
            variable=VariableValue(claim.variable, claim.type, case.variables[number]),
            command=format_command(rules, tests, seed=self._seed, test=self._property.name, case=case.number),
        )


# The run
Progress: TypeAlias = Callable[[int, int], None]


def run_tests(
    program: Program,
    *,
    seed: int,
    max_steps: int = MAX_STEPS,
    only: str | None = None,
    case: int | None = None,
    progress: Progress | None = None,
) -> TestReport:
    """Run every test, or only the one called `only`, and of that only the case number `case`.

    `progress(done, total)` is called after each case that counts.
    """
    examples, properties = _select_tests(program, only, case)
    total = len(examples) + (sum(prop.cases for prop in properties) if case is None else len(properties))
    context = RunContext(program, Machine(program), max_steps, collect_fact_usage(program))
    tally = _Tally(total, progress)
    for example in examples:
        tally.add_outcome(_run_example(context, example))
    for prop in properties:
        runner = _PropertyRunner(context, prop, seed)
        if case is None:
            _run_property(runner, prop.cases, tally)
        else:
            tally.add_outcome(runner.run_case(case))
    return TestReport(
        passed=tally.passed,
        failed=tally.failed,
        discarded=tally.discarded,
        without_field=tally.without_field,
        failures=tuple(tally.failures),
        coverage=Coverage(program.source, context.machine.sites, frozenset(context.reached)),
    )


def _run_property(runner: _PropertyRunner, case_count: int, tally: "_Tally") -> None:
    """Run cases until enough of them count, one fails or there are no more tries."""
    counted = 0
    for number in range(TRIES_PER_CASE * case_count):
        outcome = runner.run_case(number)
        tally.add_outcome(outcome)
        if outcome.failures:
            return
        counted += outcome.counts
        if counted == case_count:
            return
    failure = runner.build_too_few_failure(counted)
    tally.add_outcome(_CaseOutcome(counts=True, evaluates_field=False, failures=[failure]))


@dataclass(slots=True)
class _Tally:
    """The counts of a run so far."""

    total: int
    progress: Progress | None
    passed: int = 0
    failed: int = 0
    discarded: int = 0
    without_field: int = 0
    failures: list[TestFailure] = field(default_factory=list)

    def add_outcome(self, outcome: _CaseOutcome) -> None:
        if not outcome.counts:
            self.discarded += 1
            return
        self.failures += outcome.failures
        if outcome.failures:
            self.failed += 1
        else:
            self.passed += 1
        self.without_field += not outcome.evaluates_field
        if self.progress is not None:
            self.progress(self.passed + self.failed, self.total)


def _select_tests(
    program: Program, only: str | None, case: int | None
) -> tuple[tuple[TypedExample, ...], tuple[TypedProperty, ...]]:
    if only is None:
        if case is not None:
            raise Invalid("a case number needs the name of a property", fix="name the property")
        return program.examples, program.properties
    examples = tuple(example for example in program.examples if example.name == only)
    properties = tuple(prop for prop in program.properties if prop.name == only)
    if not examples and not properties:
        names = [*(example.name for example in program.examples), *(prop.name for prop in program.properties)]
        raise Invalid(f"there is no test called `{only}`", fix=Suggestions().suggest(only, names))
    if case is not None:
        _require_valid_case(properties, only, case)
    return examples, properties


def _require_valid_case(properties: tuple[TypedProperty, ...], only: str, case: int) -> None:
    if not properties:
        raise Invalid(f"`{only}` is an example, which is a single case", fix="leave out the case number")
    tries = TRIES_PER_CASE * properties[0].cases
    if not 0 <= case < tries:
        raise Invalid(f"`{only}` has no case {case}: its cases are numbered from 0 to {tries - 1}")
